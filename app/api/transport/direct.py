"""The handler of plain routes: those whose arguments are the application, the key, a body and single parameters.

FastAPI solves a tree of dependencies for each request: that costs more than most endpoints do. The handler here reads
the endpoint's signature once. It answers as FastAPI does, in the same order: key's scope, parameters, body, endpoint,
response model. `FixedPaths` finds these routes by their path, without trying all before them.
"""

import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeAlias

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.datastructures import URLPath
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from app.api.deps import RequireScope, application_of
from app.api.transport.signature import Argument, Problem, Signature, signature_of
from app.usecases.offload import offload_if_large

JSON = "application/json"
NO_CONTENT = 204
ABSENT: Any = object()
"""A body of no bytes."""
Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]
Decoder: TypeAlias = Callable[[bytes], Any]
"""From the bytes of a body to its values; raises JSONDecodeError."""


def direct_handler(
    route: APIRoute, check: Callable[[Request], None], decoders: Mapping[str, Decoder]
) -> Handler | None:
    """Return a handler for `route`, None if only FastAPI can serve it.

    `check` refuses requests once the key is known to suffice. `decoders` read bodies of other media types than JSON.
    """
    signature = signature_of(route.endpoint)
    known = all(call is application_of or isinstance(call, RequireScope) for call in signature.dependencies.values())
    fixed = "{" not in route.path and not signature.other and len(signature.bodies) <= 1
    if not (known and fixed and inspect.iscoroutinefunction(route.endpoint) and _is_plain(route)):
        return None
    return _Direct(route, signature, check, decoders).respond


def _is_plain(route: APIRoute) -> bool:
    """Tell whether the route has no option that `_Direct` does not know. A response class that was chosen is a type."""
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
        body = ABSENT if self._body is None else await self._decoded(request)
        problems: list[Problem] = []
        for arguments, given in (
            (self._signature.query, request.query_params),
            (self._signature.headers, request.headers),
        ):
            for argument in arguments:
                _keep(values, problems, argument, argument.read(given))
        if self._body is not None:
            raw = await request.body()
            found = (
                self._body.missing() if body is ABSENT else await offload_if_large(len(raw), self._body.validate, body)
            )
            _keep(values, problems, self._body, found)
        if problems:
            raise RequestValidationError(problems, body=None if body is ABSENT else body)
        for name in self._app_names:
            values[name] = await application_of(request)
        if self._signature.request is not None:
            values[self._signature.request] = request
        return self._response(await self._endpoint(**values))

    async def _decoded(self, request: Request) -> Any:
        """Return what the body says, or its bytes where it is not said to be JSON."""
        raw = await request.body()
        if not raw:
            return ABSENT
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        decode = json.loads if kind == JSON or _is_json(kind) else self._decoders.get(kind)
        if decode is None:
            return raw
        try:
            return await offload_if_large(len(raw), decode, raw)
        except json.JSONDecodeError as error:
            place = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error", "input": {}}
            raise RequestValidationError([place], body=error.doc) from error
        except Exception as error:  # what is not Unicode, or nested too deep
            raise HTTPException(400, "There was an error parsing the body") from error

    def _response(self, answer: Any) -> Response:
        if isinstance(answer, Response):
            return answer
        if self._status == NO_CONTENT or self._dump is None:
            return Response(b"" if self._status == NO_CONTENT else b"null", self._status, media_type=JSON)
        if type(answer) is not self._model:  # else it was validated when it was made
            answer = self._dump.validate_python(answer, from_attributes=True)
        content = self._dump.dump_json(answer, by_alias=True, exclude_none=self._exclude_none)
        return Response(content, self._status, media_type=JSON)


class FixedPaths(BaseRoute):
    """All routes whose path has no parameter, found by one look into a table. It stands before the other routes."""

    def __init__(self, routers: Iterable[APIRouter]) -> None:
        """`routers`: in the order in which the application has them; the first route of a path counts."""
        self._routes: dict[tuple[str, str], APIRoute] = {}
        for route in (route for router in routers for route in router.routes):
            if isinstance(route, APIRoute) and "{" not in route.path:
                for method in route.methods or ():
                    self._routes.setdefault((method, route.path), route)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return what the route of this path says; no match for a path that is not fixed."""
        if scope["type"] != "http":
            return Match.NONE, {}
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        route = self._routes.get((scope["method"], path))
        return (Match.NONE, {}) if route is None else route.matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the route that matched answer."""
        await scope["route"].handle(scope, receive, send)

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        """Name no route: each is included in the application a second time."""
        raise NoMatchFound(name, path_params)


def _keep(
    values: dict[str, Any], problems: list[Problem], argument: Argument, found: tuple[Any, list[Problem]]
) -> None:
    values[argument.name] = found[0]
    problems.extend(found[1])


def _is_json(kind: str) -> bool:
    return kind.startswith("application/") and kind.endswith("+json") and kind.count("/") == 1
