"""The MCP endpoint /mcp over streamable HTTP. It takes the same API keys as the routes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.deps import has_scope, identify_principal
from app.api.transport.admission import check_complexity
from app.api.transport.complexity import MAX_VALUES
from app.api.transport.intake import Body, replay_body
from app.api.transport.parameters import check_parameter_names
from app.bootstrap import Application
from app.domain.errors import InvalidInput, RateLimited, ScopeRequired, Unauthenticated
from app.domain.principal import Principal as Caller
from app.mcp.connection import open_connection
from app.mcp.hosts import check_host, check_origin
from app.mcp.server import MemoryServer
from app.mcp.tools import TOOLS

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
            # app.mcp.hosts checks hosts and origins instead
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
        check_parameter_names(PARAMETERS, request.query_params)
        caller = await identify_principal(self._app, request)
        if not any(has_scope(caller, tool.scope) for tool in TOOLS):
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
        """Return the whole body. The tool reports a key that has ended meanwhile."""
        body: Body | None = getattr(request.state, "body", None)
        if body is None:
            return b""
        body.tenant_id = caller.tenant_id
        content = await body.read_all()
        await check_complexity(request.headers, content, MAX_VALUES)
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
