"""The handler of plain routes, whose arguments are the application, the key, a body and single parameters.

FastAPI solves a tree of dependencies for each request, which costs more than most endpoints do. The handler here reads
the endpoint's signature once. It does the same steps as FastAPI in the same order: key's scope, parameters, body,
endpoint, response model. `app.api.transport.plain_routes` finds the routes of these handlers.
"""

import inspect
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from mnema_wire.unique_keys import RepeatedKey, load_json
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException

from app.api.deps import RequireScope, application_of
from app.api.transport.signature import Argument, Problem, Signature, signature_of
from app.domain.errors import InvalidInput
from app.usecases.offload import offload_if_large

JSON = "application/json"
NO_CONTENT = 204
ABSENT: Any = object()
"""The value of an empty body."""
Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]
Decoder: TypeAlias = Callable[[bytes], Any]
"""A function that decodes the bytes of a body. It raises JSONDecodeError."""


def direct_handler(
    route: APIRoute, check: Callable[[Request], None], decoders: Mapping[str, Decoder]
) -> Handler | None:
    """Return a handler for `route`, None if only FastAPI can serve it.

    `check` may refuse a request; it runs after the key's scope was checked. `decoders` decode bodies by media type,
    besides JSON.
    """
    signature = signature_of(route.endpoint)
    known = all(call is application_of or isinstance(call, RequireScope) for call in signature.dependencies.values())
    fixed = "{" not in route.path and not signature.other and len(signature.bodies) <= 1
    if not (known and fixed and inspect.iscoroutinefunction(route.endpoint) and _is_plain(route)):
        return None
    return _Direct(route, signature, check, decoders).respond


def _is_plain(route: APIRoute) -> bool:
    """Return True if `_Direct` supports every option of the route.

    `response_class` is a type only if the route chose one; FastAPI's default is a placeholder.
    """
    return not (
        isinstance(route.response_class, type)
        or route.dependencies
        or route.callbacks
        or route.response_model_include
        or route.response_model_exclude
        or route.response_model_exclude_unset
        or route.response_model_exclude_defaults
    )


class _Direct:
    def __init__(
        self, route: APIRoute, signature: Signature, check: Callable[[Request], None], decoders: Mapping[str, Decoder]
    ) -> None:
        self._endpoint = route.endpoint
        self._signature = signature
        self._body = signature.bodies[0] if signature.bodies else None
        self._needs = [(name, call) for name, call in signature.dependencies.items() if isinstance(call, RequireScope)]
        self._app_names = [name for name, call in signature.dependencies.items() if call is application_of]
        self._check = check
        self._decoders = decoders
        self._status = route.status_code or 200
        self._model = route.response_model
        self._dump = TypeAdapter(self._model) if self._model is not None else None
        self._exclude_none = route.response_model_exclude_none

    async def respond(self, request: Request) -> Response:
        """Check the key's scopes, validate the arguments, call the endpoint and dump what it returns."""
        values: dict[str, Any] = {name: needs.admitted_principal(request) for name, needs in self._needs}
        self._check(request)
        raw = b"" if self._body is None else await request.body()
        body = await self._decode_body(request, raw) if raw else ABSENT
        problems: list[Problem] = []
        for arguments, given in (
            (self._signature.query, request.query_params),
            (self._signature.headers, request.headers),
        ):
            for argument in arguments:
                _collect_result(values, problems, argument, argument.read(given))
        if self._body is not None:
            result = (
                self._body.missing() if body is ABSENT else await offload_if_large(len(raw), self._body.validate, body)
            )
            _collect_result(values, problems, self._body, result)
        if problems:
            raise RequestValidationError(problems, body=None if body is ABSENT else body)
        for name in self._app_names:
            values[name] = await application_of(request)
        if self._signature.request is not None:
            values[self._signature.request] = request
        return self._render_result(await self._endpoint(**values))

    async def _decode_body(self, request: Request, raw: bytes) -> Any:
        """Return the decoded body, or its bytes if no decoder fits its Content-Type."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        decode = load_json if kind == JSON or _is_json(kind) else self._decoders.get(kind)
        if decode is None:
            return raw
        try:
            return await offload_if_large(len(raw), decode, raw)
        except json.JSONDecodeError as error:
            place = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error", "input": {}}
            raise RequestValidationError([place], body=error.doc) from error
        except RepeatedKey as error:
            raise repeated_key(error) from error
        except Exception as error:  # not Unicode, or nested too deeply
            raise HTTPException(400, "There was an error parsing the body") from error

    def _render_result(self, answer: Any) -> Response:
        if isinstance(answer, Response):
            return answer
        if self._status == NO_CONTENT or self._dump is None:
            return Response(b"" if self._status == NO_CONTENT else b"null", self._status, media_type=JSON)
        if type(answer) is not self._model:  # an instance of the model was validated on creation
            answer = self._dump.validate_python(answer, from_attributes=True)
        content = self._dump.dump_json(answer, by_alias=True, exclude_none=self._exclude_none)
        return Response(content, self._status, media_type=JSON)


def repeated_key(error: RepeatedKey) -> InvalidInput:
    """Return the error of a body with equal keys in one object."""
    return InvalidInput(f"body: {error}", param=error.key)


def _collect_result(
    values: dict[str, Any], problems: list[Problem], argument: Argument, result: tuple[Any, list[Problem]]
) -> None:
    values[argument.name] = result[0]
    problems.extend(result[1])


def _is_json(kind: str) -> bool:
    return kind.startswith("application/") and kind.endswith("+json") and kind.count("/") == 1
