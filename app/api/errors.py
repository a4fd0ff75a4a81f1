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
_CHAT_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_ANTHROPIC_KINDS = _CHAT_KINDS | {404: "not_found_error", 413: "request_too_large", 504: "timeout_error"}
METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
HTTP_CODES = {400: "malformed_body", 404: "no_such_route", 405: "method_not_allowed"}


class IncompleteStream(Exception):
    """The end of a streamed answer before it is complete, with the `code` of the reason.

    The connection breaks, so the client sees that the answer is incomplete. This is not a MnemaError, because a
    MnemaError becomes a problem document, and the status of this answer has already been sent.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


class EncodedBody(UnsupportedMediaType, code="unsupported_media_type"):
    """Compressed request bodies are not supported: send the body without Content-Encoding."""


class BodyTooComplex(InvalidInput):
    """The request body holds more values than this server accepts."""


class BodyTimeout(MnemaError, status=408):
    """The request body arrived too slowly."""


class TooManyUploads(LimitReached):
    """Too many uploads are running; wait as many seconds as Retry-After says."""


class FieldProblem(BaseModel):
    """One invalid value of a request: its place and what is wrong with it."""

    loc: list[str | int] = Field(examples=[["body", "top_k"]])
    msg: str = Field(examples=["Input should be less than or equal to 50"])


class Problem(BaseModel):
    """An error (RFC 9457). Programs can rely on `code`; `detail` is for people."""

    type: str = "about:blank"
    title: str = Field(examples=["category not allowed"])
    status: int = Field(examples=[403])
    code: str = Field(examples=["category_not_allowed"])
    detail: str = Field(examples=["agent 'stylist' may not use: tasks"])
    request_id: str = Field(examples=["01a1fc04bdad75028255"])
    errors: list[FieldProblem] | None = None
    categories: list[str] | None = Field(default=None, description="with category_not_allowed: the refused names")
    matched: int | None = Field(
        default=None, description="with batch_too_large and unexpected_count: the memories that match"
    )
    counts: dict[str, int] | None = Field(default=None, description="with category_in_use: rows by category")
    retry_after: int | None = Field(default=None, description="with rate_limited and quota_exceeded: seconds to wait")


def problem_response(
    request_id: str, status: int, code: str, detail: str, headers: dict[str, str] | None = None, **extra: Any
) -> JSONResponse:
    """Return the problem response for one error; `extra` are further members of the document."""
    return JSONResponse(problem_document(request_id, status, code, detail, **extra), status, headers, MEDIA_TYPE)


def error_response(error: MnemaError, request: Request) -> JSONResponse:
    """Return the response for a MnemaError. Log it if its status is 500 or above."""
    if error.status >= 500:
        log.warning("request_failed", code=error.code, detail=error.detail, request_id=request_id(request))
    more = error.extra | chat_members(request.scope, error.status, error.code, error.detail, error.extra.get("param"))
    return problem_response(
        request_id(request), error.status, error.code, error.detail, _problem_headers(error), **more
    )


def chat_members(scope: Scope, status: int, code: str, detail: str, param: object = None) -> dict[str, Any]:
    """Return the members of a problem document under /v1 that clients of chat APIs read; else nothing.

    Clients of OpenAI's API read `error`, those of Anthropic's also `type`.
    """
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if not path.startswith("/v1/"):
        return {}
    if path.startswith("/v1/messages"):
        kind = _ANTHROPIC_KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": detail, "param": param, "code": code}}
    kind = _CHAT_KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": detail, "type": kind, "param": param, "code": code}}


def problem_document(request_id: str, status: int, code: str, detail: str, **extra: Any) -> dict[str, Any]:
    """Return the problem document (RFC 9457) for one error, for HTTP and MCP alike."""
    return {
        "type": "about:blank",
        "title": code.replace("_", " "),
        "status": status,
        "code": code,
        "detail": detail,
        "request_id": request_id,
        **extra,
    }


def validation_problem(request_id: str, problems: Sequence[Any]) -> dict[str, Any]:
    """Return the problem document for input that fails validation; `problems` are pydantic's error entries.

    The document does not repeat the input, which may be huge, secret or impossible to encode.
    """
    reported = problems[:MAX_PROBLEMS]
    errors = [{"loc": [_safe_value(p) for p in e["loc"]], "msg": _safe_value(e["msg"])} for e in reported]
    malformed = any(e["type"] == "json_invalid" for e in problems)
    code, status = ("malformed_body", 400) if malformed else ("invalid_request", 422)
    first = errors[0] if errors else {"loc": [], "msg": "invalid"}
    detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return problem_document(request_id, status, code, detail, errors=errors)


def request_id(request: Request) -> str:
    """Return the id that RequestEnvelope gave the request, "" if it gave none."""
    assigned: str = request.scope.get("state", {}).get("request_id", "")
    return assigned


def openapi_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries for the errors of a route: `statuses`, and the statuses that these imply.

    A route that needs a key (401) also has rate limits (429). A route that parses a body (400, 413) also checks its
    Content-Type (415) and how fast it arrives (408).
    """
    implied = {401: 429, 400: 415, 413: 408}
    statuses = (*statuses, *(more for status, more in implied.items() if status in statuses))
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": _DESCRIPTIONS[status], "content": content, "headers": _HEADERS.get(status, {})}
        for status in statuses
    }


def key_errors(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries for the errors of every route that checks a key's rights, and of `more` statuses."""
    return openapi_errors(*sorted({401, 403, 422, 503, *more}))


def body_errors(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries for the errors of every such route that takes a JSON body, and of `more` statuses."""
    return key_errors(400, 413, *more)


_DESCRIPTIONS = {
    400: "The body is not JSON",
    401: "No valid API key",
    403: "Not allowed for this key or agent",
    404: "This tenant has nothing with that name or id",
    408: "The body arrived too slowly",
    409: "The request conflicts with the current state",
    410: "The cursor is of another database; list all again and begin without a cursor",
    412: "The version in If-Match is not the current version",
    413: "The body is too large",
    415: "The Content-Type is not JSON, or the body is compressed",
    422: "The request is not valid",
    429: "A rate limit or a quota of the key or the tenant is reached",
    502: "The upstream cannot be reached, or its answer cannot be passed on",
    504: "The upstream did not answer in time",
    503: "A dependency does not answer, the tenant is busy, or the server is stopping. A write may have been stored.",
}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"required": True, "schema": {"const": "Bearer"}}},
    429: {"Retry-After": {"required": True, "description": "seconds", "schema": {"type": "integer"}}},
    503: {"Retry-After": {"required": True, "description": "seconds", "schema": {"type": "integer"}}},
}
_FIXED_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 415: {"Accept": "application/json"}, 503: {"Retry-After": "1"}}


def install_error_handlers(app: FastAPI, chat_routes: Sequence[str]) -> None:
    """Answer every error of `app` with a problem document. An unknown path under /v1 is told the `chat_routes`."""

    @app.exception_handler(MnemaError)
    async def _answer_mnema_error(request: Request, error: MnemaError) -> JSONResponse:
        return error_response(error, request)

    @app.exception_handler(RequestValidationError)
    async def _answer_invalid_request(request: Request, error: RequestValidationError) -> JSONResponse:
        if isinstance(error.body, bytes):  # the Content-Type is not JSON, so FastAPI did not parse it
            return error_response(UnsupportedMediaType(), request)
        body = validation_problem(request_id(request), error.errors())
        body |= chat_members(request.scope, body["status"], body["code"], body["detail"])
        return JSONResponse(body, body["status"], media_type=MEDIA_TYPE)

    @app.exception_handler(HTTPException)
    async def _answer_http_exception(request: Request, error: HTTPException) -> JSONResponse:
        code = HTTP_CODES.get(error.status_code, "http_error")
        detail = str(error.detail)
        headers = dict(error.headers or {})
        if error.status_code == 404:
            detail = "No route has this path. Ids in a path are UUIDs, but for users and threads."
            if chat_members(request.scope, 404, code, detail):
                detail = f"No route has this path. Routes of chats: {', '.join(chat_routes)}."
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_allowed_methods(app, request.scope))
        more = chat_members(request.scope, error.status_code, code, detail)
        return problem_response(request_id(request), error.status_code, code, detail, headers, **more)


def _allowed_methods(app: FastAPI, scope: Scope) -> list[str]:
    """Return the methods of all routes of this path; Starlette's router names those of the first route only."""
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
