"""The MCP endpoint /mcp over streamable HTTP: it takes the API keys of the routes, and checks Host and Origin."""

import ipaddress
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mnema_wire.unique_keys import RepeatedKey, check_unique_keys
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.deps import identify_principal
from app.api.transport.admission import check_complexity
from app.api.transport.complexity import MAX_VALUES
from app.api.transport.direct import repeated_key
from app.api.transport.intake import Body, replay_body
from app.api.transport.parameters import check_parameter_names
from app.bootstrap import Application
from app.domain.errors import InvalidInput, MnemaError, RateLimited, ScopeRequired, Unauthenticated
from app.domain.principal import Principal as Caller
from app.mcp.connection import open_connection
from app.mcp.server import MemoryServer
from app.mcp.tools import TOOLS
from app.usecases.offload import offload_if_large

PATH = "/mcp"
PARAMETERS = frozenset({"names"})
NAMES = ("plain", "dotted")


class McpEndpoint:
    """An ASGI application that authenticates the caller before it handles MCP.

    It keeps no state between requests, so any replica can answer the next request.
    """

    def __init__(self) -> None:
        self._app: Application | None = None
        self._protocol: ASGIApp | None = None

    @asynccontextmanager
    async def open_endpoint(self, app: Application) -> AsyncIterator[None]:
        """Serve `app` until the block ends. Requests that still run then are cancelled."""
        manager = StreamableHTTPSessionManager(
            MemoryServer(app).build_server(),
            stateless=True,
            json_response=True,
            max_request_body_size=app.parts.settings.max_body_bytes,
            # app.mcp.http checks hosts and origins instead
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        async with manager.run():
            self._app = app
            self._protocol = manager.asgi_app
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one POST.

        Raise HostNotAllowed, OriginNotAllowed, Unauthenticated, ScopeRequired or InvalidInput, and AgentNotAllowed or
        UnknownAgent for the agent of a header. Other errors are JSON-RPC answers.
        """
        if self._app is None or self._protocol is None:
            raise RuntimeError("the application has not started")
        # RFC 9110: blanks around a value do not belong to it, but the SDK compares values with their blanks
        scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        request = Request(scope)
        check_host(request, self._app.parts.settings.mcp_hosts)
        check_origin(request, self._app.parts.settings.cors_origins)
        check_parameter_names(PARAMETERS, frozenset(), request.query_params)
        caller = await identify_principal(self._app, request)
        if not any(caller.has_scope(tool.scope) for tool in TOOLS):
            raise ScopeRequired("MCP needs a key with scope 'query' or 'write'")
        names = request.query_params.get("names", "plain")
        if names not in NAMES:
            raise InvalidInput(f"names must be 'plain' or 'dotted', not {names[:40]!r}")
        request.state.connection = open_connection(self._app, caller, request.headers)
        request.state.refusal = await self._rate_limit_error(caller)
        request.state.dotted_names = names == "dotted"
        content = await self._read_body(request, caller)
        await self._protocol(scope, replay_body(content, receive), send)

    async def _read_body(self, request: Request, caller: Caller) -> bytes:
        """Return the whole body. The tool reports a key that has ended meanwhile, and equal keys in one object."""
        body: Body | None = getattr(request.state, "body", None)
        if body is None:
            return b""
        body.tenant_id = caller.tenant_id
        content = await body.read_all()
        await check_complexity(request.headers, content, MAX_VALUES)
        try:
            await offload_if_large(len(content), check_unique_keys, content)
        except RepeatedKey as error:
            request.state.refusal = repeated_key(error)
        try:
            caller.require_live()
        except Unauthenticated as error:
            request.state.refusal = error
        return content

    async def _rate_limit_error(self, caller: Caller) -> RateLimited | None:
        """Return the error if the caller has reached a rate limit, else None.

        The tool reports the error, because a model reads tool results and no HTTP status.
        """
        assert self._app is not None
        try:
            await self._app.tenancy.limits.admit_request(caller)
        except RateLimited as error:
            return error
        return None


LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class OriginNotAllowed(MnemaError, status=403):
    """Web pages of this origin may not call /mcp; MNEMA_CORS_ORIGINS lists the allowed origins."""


class HostNotAllowed(MnemaError, status=403):
    """This machine does not serve /mcp under this Host; MNEMA_MCP_HOSTS lists the allowed names."""


def check_host(request: Request, named: Sequence[str]) -> None:
    """Raise HostNotAllowed if a request that arrived on a loopback address names a foreign host.

    Otherwise a page could rebind its own name to a server that listens on this machine only. An IP address is never
    rebound. `named` are the names that a proxy on this machine passes on.
    """
    if not _is_loopback(request):
        return
    host, _ = _split_origin(f"http://{request.headers.get('host', '')}")
    if host is None or not (host in LOOPBACK or host in named or host.endswith(".localhost") or _is_address(host)):
        raise HostNotAllowed()


def check_origin(request: Request, named: Sequence[str]) -> None:
    """Raise OriginNotAllowed for a web page that may not call this endpoint. Other programs send no Origin.

    A page served from this machine may call the host it came from. Pages of any other host need an origin in `named`.
    Otherwise a page could rebind its own name to this address (DNS rebinding) and send that name as Host and Origin.
    """
    for origin in request.headers.getlist("origin"):
        host, netloc = _split_origin(origin)
        own = host in LOOPBACK and netloc == request.headers.get("host", "").lower()
        if not (own or origin in named or "*" in named):
            raise OriginNotAllowed()


def _is_loopback(request: Request) -> bool:
    """Return True if the connection arrived on a loopback address of this machine."""
    server = request.scope.get("server")
    return server is not None and _is_address(server[0]) and ipaddress.ip_address(server[0]).is_loopback


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _split_origin(origin: str) -> tuple[str | None, str]:
    """Return the host of an origin, and the host with its port."""
    try:
        parts = urlsplit(origin)
        return parts.hostname, parts.netloc.lower()
    except ValueError:  # such as http://[
        return None, ""
