"""mnema mcp: what an MCP client starts."""

import asyncio
import signal
from enum import StrEnum
from typing import Annotated

import httpx
import typer

from app.cli.client import client_options, exit_with_error, read_connection


class ToolNames(StrEnum):
    """Which tool names to offer."""

    ALL = "all"
    PLAIN = "plain"


def serve_mcp(
    names: Annotated[
        ToolNames, typer.Option(help="plain: without dots, which Claude Desktop and the OpenAI API refuse")
    ] = ToolNames.ALL,
) -> None:
    """Serve MCP on stdin and stdout, as a client of the server at MNEMA_URL with MNEMA_API_KEY."""
    from app.mcp.bridge import serve_stdio  # the SDK takes half a second to import; the other commands need not wait

    url, key = read_connection()
    # there is nothing to tidy up, and a read of stdin that waits would hold an orderly end up
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        options = client_options(url, key)
        asyncio.run(serve_stdio(httpx.AsyncClient(**options), names))
    except (httpx.InvalidURL, ValueError) as error:
        exit_with_error(f"MNEMA_URL or MNEMA_API_KEY cannot be used: {error}")
