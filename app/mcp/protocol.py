"""The protocol behind /mcp: the MCP SDK with the tools, prompts and resources of an application.

Only the first request to /mcp imports this module: the SDK takes a sixth of a server's start and 18 MB.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from app.bootstrap import Application
from app.mcp.http import Protocol
from app.mcp.server import MemoryServer
from app.mcp.tools import TOOLS


@asynccontextmanager
async def open_protocol(app: Application) -> AsyncIterator[Protocol]:
    """Open the protocol for `app` until the block ends. Requests that still run then are cancelled."""
    manager = StreamableHTTPSessionManager(
        MemoryServer(app).build_server(),
        stateless=True,
        json_response=True,
        max_request_body_size=app.parts.settings.max_body_bytes,
        # app.mcp.http checks hosts and origins instead
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    async with manager.run():
        yield manager.asgi_app, frozenset(tool.scope for tool in TOOLS)
