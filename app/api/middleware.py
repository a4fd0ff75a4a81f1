"""What every request passes: an id, a size limit, one log line, and no exception without an answer."""

import asyncio
import re
import time
import uuid
from collections.abc import Mapping

import structlog
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import BrokenOff, problem
from app.domain.errors import BodyTooLarge, UnsupportedMediaType
from app.domain.ids import MAX_LENGTH

log = structlog.get_logger(__name__)
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
}
SHUTTING_DOWN = "This server stopped before it could answer. Send it again; a write with its Idempotency-Key."
AGAIN = {"Retry-After": "1"}
PROBES = frozenset({"/health", "/ready", "/metrics"})
HSTS = (b"strict-transport-security", b"max-age=31536000")
TAME = re.compile(rf"[A-Za-z0-9._:-]{{1,{MAX_LENGTH}}}")
_ADDED = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
_NAMES = frozenset(name for name, _value in (*_ADDED, HSTS))
_READ = frozenset({b"x-request-id", b"content-encoding", b"content-length", b"transfer-encoding"})


class RequestEnvelope:
    """Plain ASGI, so that streaming stays streaming."""

    def __init__(
        self, app: ASGIApp, max_body: int, large: Mapping[str, int], roomy: Mapping[str, int] | None = None
    ) -> None:
        """`large`: paths with a limit of their own, which their routes enforce while they read; `roomy`: how paths with
        a limit of their own begin, which is enforced here."""
        self._app = app
        self._max_body = max_body
        self._large = large
        self._roomy = tuple((roomy or {}).items())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = _given(scope)
        request_id = _request_id(given.get(b"x-request-id"))
        scope.setdefault("state", {})["request_id"] = request_id
        reply = _Reply(send, request_id, https=scope["scheme"] == "https")
        started = time.perf_counter()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._handle(scope, receive, reply, request_id, given)
        except BrokenOff as broken:
            log.warning("answer_broken_off", path=scope["path"], method=scope["method"], code=broken.code)
        except ClientDisconnect:
            log.info("client_gone", path=scope["path"], method=scope["method"])
        except asyncio.CancelledError:  # by the server, which stops and has waited long enough
            log.warning("request_cut_short", path=scope["path"], method=scope["method"], answered=reply.started)
            if not reply.started:
                await problem(request_id, 503, "shutting_down", SHUTTING_DOWN, AGAIN)(scope, receive, reply)
        except Exception:
            log.exception("request_crashed", path=scope["path"], method=scope["method"])
            if not reply.started:
                await problem(request_id, 500, "internal_error", "This is a defect of the server.")(
                    scope, receive, reply
                )
        finally:
            took = time.perf_counter() - started
            _count(scope, reply.status, took)
            _tell(scope, reply.status, took)
            structlog.contextvars.unbind_contextvars("request_id", "tenant_id")

    async def _handle(
        self, scope: Scope, receive: Receive, reply: Send, request_id: str, given: Mapping[bytes, str]
    ) -> None:
        if given.get(b"content-encoding", "identity").strip().lower() != "identity":
            error = UnsupportedMediaType("Send the body as it is, without Content-Encoding.")
            accepted = {"Accept-Encoding": "identity"}
            await problem(request_id, error.status, error.code, error.detail, accepted)(scope, receive, reply)
            return
        limited = await self._within_limit(scope, receive, given)
        if limited is None:
            large = BodyTooLarge(f"at most {self._limit(scope['path'])} bytes")
            await problem(request_id, large.status, large.code, large.detail)(scope, receive, reply)
        else:
            await self._app(scope, limited, reply)

    def _limit(self, path: str) -> int:
        """The most bytes of a body that a path takes."""
        if (large := self._large.get(path)) is not None:
            return large
        for begin, limit in self._roomy:
            if path.startswith(begin):
                return limit
        return self._max_body

    async def _within_limit(self, scope: Scope, receive: Receive, given: Mapping[bytes, str]) -> Receive | None:
        """The receive channel to go on with, or None when the body is too large."""
        limit = self._limit(scope["path"])
        if (length := given.get(b"content-length")) is not None:
            return receive if length.isdecimal() and int(length) <= limit else None
        if b"transfer-encoding" not in given or scope["path"] in self._large:
            return receive
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return receive
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > limit:
                return None
        return _replay(bytes(body), receive)


def _count(scope: Scope, status: int, seconds: float) -> None:
    """By the route's template: paths hold ids."""
    application = getattr(scope["app"].state, "application", None)
    if application is not None:
        route = scope.get("route") or _plain_route(scope)
        application.metrics.request(getattr(route, "path_format", None), scope["method"], status, seconds)


def _plain_route(scope: Scope) -> Route | None:
    """FastAPI notes its own routes only, and neither Starlette's nor those it makes for its documents."""
    routes = scope["app"].router.routes
    return next((r for r in routes if type(r) is Route and r.matches(scope)[0] is not Match.NONE), None)


def _tell(scope: Scope, status: int, seconds: float) -> None:
    """Probes come every few seconds: of those that went well only a log of level debug has a line."""
    tell = log.debug if scope["path"] in PROBES and status < 400 else log.info
    tell("request", method=scope["method"], path=scope["path"], status=status, took_ms=round(seconds * 1000, 2))


def _replay(body: bytes, receive: Receive) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


class _Reply:
    """Adds our headers to the response as it starts."""

    def __init__(self, send: Send, request_id: str, *, https: bool) -> None:
        self._send = send
        self._request_id = (b"x-request-id", request_id.encode("latin-1"))
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
        await self._send(message)


def _given(scope: Scope) -> dict[bytes, str]:
    """The headers that are read here; of several of one name the first."""
    found: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name in _READ and name not in found:
            found[name] = value.decode("latin-1")
    return found


def _request_id(given: str | None) -> str:
    """The caller's id if it is a tame one, else a new one."""
    return given if given and TAME.fullmatch(given) else uuid.uuid4().hex
