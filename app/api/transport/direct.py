"""The shortest way from a request to its endpoint, for routes whose path is fixed and which ask for what we know.

FastAPI finds a route by trying all before it, twice, opens four exit stacks and asks a tree of dependencies: that costs
more than most endpoints do. Here a route is found by its path and its needs are known beforehand. Everything that is
checked, and what is answered to what is wrong, is FastAPI's: `Direct` calls the same functions in the same order, and
every other route goes to FastAPI.
"""

import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.datastructures import DefaultPlaceholder
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import request_body_to_args, request_params_to_args
from fastapi.exceptions import RequestValidationError, ResponseValidationError
from fastapi.routing import APIRoute
from pydantic_core import PydanticUndefined
from starlette._utils import get_route_path
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.deps import Needs, application_of
from app.api.transport.msgpack import MSGPACK, MsgpackRoute, unpacked
from app.api.transport.parameters import check_names, parameters_of
from app.domain.errors import MnemaError
from app.usecases.offload import aside

JSON = "application/json"
NO_CONTENT = 204
_UNSUPPORTED = (
    "path_params",
    "cookie_params",
    "websocket_param_name",
    "http_connection_param_name",
    "response_param_name",
    "background_tasks_param_name",
    "security_scopes_param_name",
)


@dataclass(frozen=True, slots=True)
class _Plain:
    """A route that can be served here, with the names of its endpoint's arguments."""

    route: APIRoute
    application: str | None
    needs: tuple[tuple[str, Needs], ...]
    request: str | None
    parameters: frozenset[str]

    async def respond(self, request: Request) -> Response:
        """Check the key's scopes, decode the body, validate the arguments and call the endpoint."""
        dependant = self.route.dependant
        app = await application_of(request)
        values: dict[str, Any] = {name: needs.admitted(request) for name, needs in self.needs}
        check_names(self.parameters, request.query_params)
        body = await self._body(request) if self.route.body_field is not None else PydanticUndefined
        errors: list[Any] = []
        if dependant.query_params:
            _add(values, errors, request_params_to_args(dependant.query_params, request.query_params))
        if dependant.header_params:
            _add(values, errors, request_params_to_args(dependant.header_params, request.headers))
        if dependant.body_params:
            _add(values, errors, await self._arguments(await request.body(), body))
        if errors:
            raise RequestValidationError(errors, body=None if body is PydanticUndefined else body)
        if self.application is not None:
            values[self.application] = app
        if self.request is not None:
            values[self.request] = request
        return self._response(await self.route.endpoint(**values))

    async def _body(self, request: Request) -> Any:
        """What the body says, or its bytes where it is not said to be JSON."""
        raw = await request.body()
        if not raw:
            return PydanticUndefined
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            if kind == MSGPACK and isinstance(self.route, MsgpackRoute):
                return await aside(len(raw), unpacked, raw)
            return await aside(len(raw), json.loads, raw) if kind == JSON or _is_json(kind) else raw
        except json.JSONDecodeError as error:
            place = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error", "input": {}}
            raise RequestValidationError([place], body=error.doc) from error
        except Exception as error:  # what is not Unicode, or nested too deep
            raise HTTPException(400, "There was an error parsing the body") from error

    async def _arguments(self, raw: bytes, body: Any) -> tuple[dict[str, Any], list[Any]]:
        """The endpoint's argument that is the body, or what is wrong with it."""
        [field] = self.route.dependant.body_params
        if body is PydanticUndefined:
            return await request_body_to_args([field], body, embed_body_fields=False)
        value, errors = await aside(len(raw), partial(field.validate, loc=("body",)), body, {})
        return {field.name: value}, errors

    def _response(self, answer: Any) -> Response:
        if isinstance(answer, Response):
            return answer
        route = self.route
        status = route.status_code or 200
        field = route.response_field
        if status == NO_CONTENT or field is None:
            return Response(b"" if status == NO_CONTENT else b"null", status, media_type=JSON)
        if type(answer) is not field.field_info.annotation:  # else it was validated when it was made
            answer, errors = field.validate(answer, {}, loc=("response",))
            if errors:
                raise ResponseValidationError(errors=errors, body=answer)
        content = field.serialize_json(answer, exclude_none=route.response_model_exclude_none)
        return Response(content, status, media_type=JSON)


class Direct:
    """ASGI: serves the routes that it can, and passes on everything else."""

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter]) -> None:
        """`routers`: in the order in which the application has them; the first route of a path counts."""
        self._app = app
        self._plain: dict[tuple[str, str], _Plain] = {}
        for route in (route for router in routers for route in router.routes):
            if not isinstance(route, APIRoute):
                continue
            if (plain := _plain(route)) is not None:
                for method in route.methods or ():
                    self._plain.setdefault((method, route.path), plain)
            elif isinstance(route, MsgpackRoute):
                raise RuntimeError(f"{route.path} takes MessagePack, which FastAPI does not understand")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        plain = self._plain.get((scope["method"], get_route_path(scope))) if scope["type"] == "http" else None
        if plain is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = plain.route
        request = Request(scope, receive, send)
        try:
            response = await plain.respond(request)
        except (MnemaError, RequestValidationError, HTTPException) as error:
            response = await _refusal(scope["app"], request, error)
        await response(scope, receive, send)


def _plain(route: APIRoute) -> _Plain | None:
    """The route if it can be served here, else None."""
    dependant = route.dependant
    if any(getattr(dependant, name) for name in _UNSUPPORTED) or len(dependant.body_params) > 1:
        return None
    if route._embed_body_fields or route.is_sse_stream or route.is_json_stream or route.callbacks:
        return None
    if not inspect.iscoroutinefunction(route.endpoint) or not isinstance(route.response_class, DefaultPlaceholder):
        return None
    if not all(_known(dependency) for dependency in dependant.dependencies):
        return None
    named = {dependency.call: dependency.name for dependency in dependant.dependencies}
    needs = tuple((name, call) for call, name in named.items() if isinstance(call, Needs) and name is not None)
    return _Plain(route, named.get(application_of), needs, dependant.request_param_name, parameters_of(route))


def _known(dependency: Dependant) -> bool:
    return dependency.call is application_of or isinstance(dependency.call, Needs)


def _add(values: dict[str, Any], errors: list[Any], found: tuple[dict[str, Any], list[Any]]) -> None:
    values.update(found[0])
    errors.extend(found[1])


def _is_json(kind: str) -> bool:
    return kind.startswith("application/") and kind.endswith("+json") and kind.count("/") == 1


async def _refusal(app: FastAPI, request: Request, error: Exception) -> Response:
    """What the application's handler of this error answers."""
    handler: Any = next(found for kind in type(error).__mro__ if (found := app.exception_handlers.get(kind)))
    response: Response = await handler(request, error)
    return response
