"""Errors as RFC 9457 problem+json with a stable `code`."""

from collections.abc import Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from app.domain.errors import InvalidInput, LimitReached, MnemaError, UnsupportedMediaType

log = structlog.get_logger(__name__)
MEDIA_TYPE = "application/problem+json"
MAX_PROBLEMS = 20
METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
HTTP_CODES = {400: "malformed_body", 404: "no_such_route", 405: "method_not_allowed"}


class IncompleteStream(Exception):
    """A streamed answer ends before its end, for a reason of this `code`; who reads it sees that it is incomplete.

    No MnemaError: that would be answered as a problem, and this answer has begun.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


class EncodedBody(UnsupportedMediaType):
    """Send the body as it is, without Content-Encoding."""


class BodyTooComplex(InvalidInput):
    """The request body holds more values than this server decodes."""

    code = "body_too_complex"


class BodyTimeout(MnemaError):
    """The request body came too slowly."""

    code = "body_timeout"
    status = 408


class TooManyUploads(LimitReached):
    """This tenant has as many uploads under way as it may; wait as long as Retry-After says."""

    code = "too_many_uploads"


class FieldProblem(BaseModel):
    """Where a request is wrong."""

    loc: list[str | int] = Field(examples=[["body", "top_k"]])
    msg: str = Field(examples=["Input should be less than or equal to 50"])


class Problem(BaseModel):
    """What went wrong. `code` is stable; `detail` is for people."""

    type: str = "about:blank"
    title: str = Field(examples=["category not allowed"])
    status: int = Field(examples=[403])
    code: str = Field(examples=["category_not_allowed"])
    detail: str = Field(examples=["agent 'stylist' may not use: tasks"])
    request_id: str = Field(examples=["01a1fc04bdad75028255"])
    errors: list[FieldProblem] | None = None
    categories: list[str] | None = Field(default=None, description="with category_not_allowed: the refused ones")
    retry_after: int | None = Field(default=None, description="with rate_limited and quota_exceeded: seconds to wait")


def problem_response(
    request_id: str, status: int, code: str, detail: str, headers: dict[str, str] | None = None, **extra: Any
) -> JSONResponse:
    """The response for one error."""
    return JSONResponse(problem_document(request_id, status, code, detail, **extra), status, headers, MEDIA_TYPE)


def error_response(error: MnemaError, request: Request) -> JSONResponse:
    """The response for one of our errors; those that are the server's fault are logged."""
    if error.status >= 500:
        log.warning("request_failed", code=error.code, detail=error.detail, request_id=request_id(request))
    return problem_response(
        request_id(request), error.status, error.code, error.detail, _problem_headers(error), **error.extra
    )


def problem_document(request_id: str, status: int, code: str, detail: str, **extra: Any) -> dict[str, Any]:
    """The problem document for one error, whichever face answers with it."""
    return {
        "type": "about:blank",
        "title": code.replace("_", " "),
        "status": status,
        "code": code,
        "detail": detail,
        "request_id": request_id,
        **extra,
    }


def validation_problem(request_id: str, found: Sequence[Any]) -> dict[str, Any]:
    """The problem document for input that its model refuses.

    The input is not echoed: it may be huge, secret or not even encodable.
    """
    errors = [{"loc": [_safe_value(p) for p in e["loc"]], "msg": _safe_value(e["msg"])} for e in found[:MAX_PROBLEMS]]
    malformed = any(e["type"] == "json_invalid" for e in found)
    code, status = ("malformed_body", 400) if malformed else ("invalid_request", 422)
    first = errors[0] if errors else {"loc": [], "msg": "invalid"}
    detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return problem_document(request_id, status, code, detail, errors=errors)


def request_id(request: Request) -> str:
    """The id the request was given on arrival."""
    found: str = request.scope.get("state", {}).get("request_id", "")
    return found


def openapi_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI entries for the errors a route can answer with: those named, and those that come with them.

    What wants a key has limits, and what takes JSON wants to be told that it is JSON.
    """
    implied = {401: 429, 400: 415, 413: 408}
    statuses = (*statuses, *(more for status, more in implied.items() if status in statuses))
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": _DESCRIPTIONS[status], "content": content, "headers": _HEADERS.get(status, {})}
        for status in statuses
    }


_DESCRIPTIONS = {
    400: "The body is not JSON",
    401: "No valid API key",
    403: "Not allowed for this key or agent",
    404: "Nothing of that name in this tenant",
    408: "The body came too slowly",
    409: "Conflict with the current state",
    412: "The version in If-Match is not current",
    413: "The body is too large",
    415: "The body is not said to be JSON, or is compressed",
    422: "The request is not valid",
    429: "A rate limit or a quota of the key or the tenant is reached",
    503: "A dependency does not answer, the tenant is busy, or the server stops: a write may be stored or not",
}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"required": True, "schema": {"const": "Bearer"}}},
    429: {"Retry-After": {"required": True, "description": "seconds", "schema": {"type": "integer"}}},
    503: {"Retry-After": {"required": True, "description": "seconds", "schema": {"type": "integer"}}},
}
_FIXED_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 415: {"Accept": "application/json"}, 503: {"Retry-After": "1"}}


def install_error_handlers(app: FastAPI) -> None:
    """Answer every error as a problem."""

    @app.exception_handler(MnemaError)
    async def _answer_mnema_error(request: Request, error: MnemaError) -> JSONResponse:
        return error_response(error, request)

    @app.exception_handler(RequestValidationError)
    async def _answer_invalid_request(request: Request, error: RequestValidationError) -> JSONResponse:
        if isinstance(error.body, bytes):  # not taken for JSON: FastAPI looks at the Content-Type alone
            return error_response(UnsupportedMediaType(), request)
        body = validation_problem(request_id(request), error.errors())
        return JSONResponse(body, body["status"], media_type=MEDIA_TYPE)

    @app.exception_handler(HTTPException)
    async def _answer_http_exception(request: Request, error: HTTPException) -> JSONResponse:
        code = HTTP_CODES.get(error.status_code, "http_error")
        detail, headers = str(error.detail), dict(error.headers or {})
        if error.status_code == 404:
            detail = "Nothing is served at this path; an id of a memory or a job in it is a UUID."
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_allowed_methods(app, request.scope))
        return problem_response(request_id(request), error.status_code, code, detail, headers)


def _allowed_methods(app: FastAPI, scope: Scope) -> list[str]:
    """The methods of every route of this path; the router names those of the first one only."""
    routes = app.router.routes
    return [m for m in METHODS if any(r.matches({**scope, "method": m})[0] is Match.FULL for r in routes)]


def _problem_headers(error: MnemaError) -> dict[str, str] | None:
    if error.status == 429:
        return {"Retry-After": str(error.extra["retry_after"])}
    if isinstance(error, EncodedBody):
        return {"Accept-Encoding": "identity"}
    return _FIXED_HEADERS.get(error.status)


def _safe_value(value: Any) -> Any:
    return value if isinstance(value, int) else str(value).encode("utf-8", "replace").decode()[:300]
