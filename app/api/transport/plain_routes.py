"""Middleware that answers requests to plain routes, so that they pass none of FastAPI's own layers."""

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, ExceptionHandler, Receive, Scope, Send

from app.api.transport.direct import Handler
from app.api.transport.parameters import StrictRoute


class PlainRoutes:
    """ASGI middleware that answers plain routes by their direct handlers, and passes other requests on.

    It finds a route in a table. Add it behind all other middleware.
    """

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter], handlers: Mapping[Any, ExceptionHandler]) -> None:
        """Take `routers` in the application's order: the first route of a path wins. `handlers` answer its errors."""
        self._app = app
        self._routes: dict[tuple[str, str], tuple[StrictRoute, ASGIApp]] = {}
        for route in (route for router in routers for route in router.routes):
            if isinstance(route, StrictRoute) and route.direct is not None:
                answer = ExceptionMiddleware(_direct_app(route.direct), handlers)
                for method in route.methods or ():
                    self._routes.setdefault((method, route.path), (route, answer))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        found = self.find_route(scope)
        if found is None:
            await self._app(scope, receive, send)
        else:
            scope["route"], answer = found
            await answer(scope, receive, send)

    def find_route(self, scope: Scope) -> tuple[StrictRoute, ASGIApp] | None:
        """Return the plain route of a request and its application, None if there is none."""
        if scope["type"] != "http":
            return None
        return self._routes.get((scope["method"], scope["path"].removeprefix(scope.get("root_path", ""))))


def _direct_app(handle: Handler) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        response = await handle(Request(scope, receive, send))
        await response(scope, receive, send)

    return answer
