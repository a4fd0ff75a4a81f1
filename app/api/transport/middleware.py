"""Middleware around every request: a request id, security headers, one log line, and an answer to every exception."""

import asyncio
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from fastapi import APIRouter
from mnema_wire.limits import MAX_IDENTIFIER
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import IncompleteStream, chat_members, error_response, problem_response
from app.bootstrap import Application
from app.domain.errors import Unauthenticated

log = structlog.get_logger(__name__)
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
}
SHUTTING_DOWN = (
    "This server stopped before it could answer. Send the request again; send a write with the same Idempotency-Key."
)
DEFECT = "This is a defect of the server."
RETRY_HEADERS = {"Retry-After": "1"}
UNMATCHED = "unmatched"
"""The path in the logs for a request that matches no route."""
PROBES = frozenset({"/health", "/ready", "/metrics"})
HSTS = (b"strict-transport-security", b"max-age=31536000")
SAFE_REQUEST_ID = re.compile(rf"[A-Za-z0-9._:-]{{1,{MAX_IDENTIFIER}}}")
_ADDED = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_NAMES = frozenset(name for name, _value in (*_ADDED, HSTS))
CLOSE = (b"connection", b"close")


class RequestEnvelope:
    """ASGI middleware that gives a request its id, headers, log line and metrics.

    It is plain ASGI, because Starlette's BaseHTTPMiddleware would change how answers are streamed.
    """

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter]) -> None:
        """Take the `routers` of the application.

        Logs and metrics name the templates of their routes, even for requests that are refused before routing.
        """
        self._app = app
        self._routes = [route for router in routers for route in router.routes if isinstance(route, Route)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        reply = _Reply(send, state, https=scope["scheme"] == "https")
        started = time.perf_counter()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._app(scope, receive, reply)
        except IncompleteStream as broken:
            log.warning("answer_broken_off", code=broken.code, **self._log_fields(scope))
        except Unauthenticated as ended:
            if reply.started:
                log.warning("answer_broken_off", code=ended.code, **self._log_fields(scope))
            else:
                await error_response(ended, Request(scope))(scope, receive, reply)
        except ClientDisconnect:
            log.info("client_gone", **self._log_fields(scope))
        except asyncio.CancelledError:  # the server is stopping and its grace period is over
            log.warning("request_cut_short", answered=reply.started, **self._log_fields(scope))
            state.pop("body", None)  # so that _Reply does not read the rest of the body
            if not reply.started:
                more = chat_members(scope, 503, "shutting_down", SHUTTING_DOWN)
                stopped = problem_response(request_id, 503, "shutting_down", SHUTTING_DOWN, RETRY_HEADERS, **more)
                await stopped(scope, receive, reply)
        except Exception:
            log.exception("request_crashed", **self._log_fields(scope))
            if not reply.started:
                more = chat_members(scope, 500, "internal_error", DEFECT)
                crashed = problem_response(request_id, 500, "internal_error", DEFECT, **more)
                await crashed(scope, receive, reply)
        finally:
            took = time.perf_counter() - started
            template = self._route_template(scope)
            _count_request(scope, template, reply.status, took)
            _log_request(scope, template or UNMATCHED, reply.status, took)
            structlog.contextvars.unbind_contextvars("request_id", "tenant_id")

    def _log_fields(self, scope: Scope) -> dict[str, str]:
        return {"path": self._route_template(scope) or UNMATCHED, "method": scope["method"]}

    def _route_template(self, scope: Scope) -> str | None:
        """Return the template of the route, None if no route matches. Logs never hold the path: it can name a user."""
        route = scope.get("route") or _plain_route(scope)
        if route is None:
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            route = next((route for route in self._routes if route.path_regex.match(path)), None)
        template: str | None = getattr(route, "path_format", None)
        return template


def _count_request(scope: Scope, template: str | None, status: int, seconds: float) -> None:
    application: Application | None = getattr(scope["app"].state, "application", None)
    if application is not None:
        application.parts.metrics.record_request(template, scope["method"], status, seconds)


def _plain_route(scope: Scope) -> Route | None:
    """Return the matching plain Starlette route. FastAPI stores only its own routes in the scope."""
    routes = scope["app"].router.routes
    return next((r for r in routes if type(r) is Route and r.matches(scope)[0] is not Match.NONE), None)


def _log_request(scope: Scope, template: str, status: int, seconds: float) -> None:
    """Log one line for the request. A successful probe is logged at level debug, because probes are frequent."""
    log_line = log.debug if scope["path"] in PROBES and status < 400 else log.info
    log_line("request", method=scope["method"], path=template, status=status, took_ms=round(seconds * 1000, 2))


class _Reply:
    """The send channel of a request. It adds the request id and the security headers to the response."""

    def __init__(self, send: Send, state: Mapping[str, Any], *, https: bool) -> None:
        self._send = send
        self._state = state
        self._request_id = (b"x-request-id", state["request_id"].encode("latin-1"))
        self._added = [*_ADDED, HSTS] if https else _ADDED
        self.started = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            present = {name for name, _value in headers}
            added = self._added if present.isdisjoint(_NAMES) else [h for h in self._added if h[0] not in present]
            message["headers"] = [*headers, self._request_id, *added]
            if (body := self._state.get("body")) is not None and not body.complete:  # the request was refused
                await body.discard()
                message["headers"] += () if body.complete else (CLOSE,)
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """Return the caller's request id if it has only safe characters, else a new one."""
    given = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"), "")
    return given if SAFE_REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
