"""Streamable HTTP at /mcp, behind the same keys as every route."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.deps import bearer, has_scope, identify_principal, recheck_key
from app.api.transport.admission import check_complexity
from app.api.transport.complexity import MAX_VALUES
from app.api.transport.intake import Body, replay_body
from app.api.transport.parameters import check_parameter_names
from app.bootstrap import Application
from app.domain.errors import InvalidInput, MnemaError, RateLimited, ScopeRequired, Unauthenticated
from app.domain.principal import Principal as Caller
from app.mcp.server import ToolServer
from app.mcp.tools import TOOLS

PATH = "/mcp"
PARAMETERS = frozenset({"names"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class OriginNotAllowed(MnemaError):
    """Pages of this origin may not call MCP here; MNEMA_CORS_ORIGINS says which may."""

    code = "origin_not_allowed"
    status = 403


class McpEndpoint:
    """An ASGI application that knows its caller before any MCP is spoken.

    Nothing is remembered between two requests, so any replica can answer the next one.
    """

    def __init__(self) -> None:
        self._app: Application | None = None
        self._protocol: ASGIApp | None = None

    @asynccontextmanager
    async def open_endpoint(self, app: Application) -> AsyncIterator[None]:
        """Serve while open; requests still running at the end are cancelled."""
        manager = StreamableHTTPSessionManager(
            ToolServer(app).build_server(),
            stateless=True,
            json_response=True,
            max_request_body_size=app.settings.max_body_bytes,
            # origins are ours to check: see _check_origin
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        async with manager.run():
            self._app, self._protocol = app, manager.asgi_app
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one POST.

        Raises OriginNotAllowed, Unauthenticated, ScopeRequired, InvalidInput; all else is answered as JSON-RPC.
        """
        if self._app is None or self._protocol is None:
            raise RuntimeError("the application has not started")
        request = Request(scope)
        _check_origin(request, self._app.settings.cors_origins)
        check_parameter_names(PARAMETERS, request.query_params)
        caller = await identify_principal(self._app, await bearer(request))
        if not any(has_scope(caller, tool.scope) for tool in TOOLS):
            raise ScopeRequired("MCP needs a key with scope 'query' or 'write'")
        names = request.query_params.get("names", "all")
        if names not in ("all", "plain"):
            raise InvalidInput("names is all or plain")
        request.state.caller = caller
        request.state.refusal = await self._rate_limit_error(caller)
        request.state.plain_names = names == "plain"
        content = await self._read_body(request, caller)
        await self._protocol(scope, replay_body(content, receive), send)

    async def _read_body(self, request: Request, caller: Caller) -> bytes:
        """The whole body. It may be long in coming: when it is there, the key must still be good."""
        assert self._app is not None
        body: Body | None = getattr(request.state, "body", None)
        if body is None:
            return b""
        body.tenant_id = caller.tenant_id
        content = await body.read_all()
        await check_complexity(request.headers, content, MAX_VALUES)
        try:
            await recheck_key(self._app, request)
        except Unauthenticated as error:
            request.state.refusal = error
        return content

    async def _rate_limit_error(self, caller: Caller) -> RateLimited | None:
        """Why nothing is done for this request. Said by the tool itself: a model reads that, and no HTTP status."""
        assert self._app is not None
        try:
            await self._app.limits.admit_request(caller)
        except RateLimited as error:
            return error
        return None


def _check_origin(request: Request, named: Sequence[str]) -> None:
    """Raise OriginNotAllowed for a page that may not call. Programs send no Origin.

    A page of this machine may, if it calls the host it came from. Of any other host only a named origin may: a page
    that rebinds its own name to this address sends that name as Host and as Origin.
    """
    for origin in request.headers.getlist("origin"):
        host, netloc = _origin_host(origin)
        own = host in LOOPBACK and netloc == request.headers.get("host", "").lower()
        if not (own or origin in named or "*" in named):
            raise OriginNotAllowed()


def _origin_host(origin: str) -> tuple[str | None, str]:
    """The host of an origin, and with its port."""
    try:
        parts = urlsplit(origin)
        return parts.hostname, parts.netloc.lower()
    except ValueError:  # such as http://[
        return None, ""
