"""mnema mcp: the stdio server that an MCP client starts."""

import asyncio
import signal
from enum import StrEnum
from typing import Annotated

import httpx
import typer

from app.cli.client import client_options, exit_with_error, read_connection


class ToolNames(StrEnum):
    """The tool names to offer: all, or only plain ones."""

    ALL = "all"
    PLAIN = "plain"


def serve_mcp(
    names: Annotated[
        ToolNames, typer.Option(help="plain: only names without dots, for Claude Desktop and the OpenAI API")
    ] = ToolNames.ALL,
) -> None:
    """Serve MCP on stdin and stdout, as a client of the server at MNEMA_URL with MNEMA_API_KEY."""
    from app.mcp.bridge import serve_stdio  # the import takes half a second; other commands should not wait for it

    url, key = read_connection()
    # there is nothing to clean up, and a waiting read of stdin would delay an orderly exit
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        options = client_options(url, key)
        asyncio.run(serve_stdio(httpx.AsyncClient(**options), names))
    except (httpx.InvalidURL, ValueError) as error:
        exit_with_error(f"MNEMA_URL or MNEMA_API_KEY cannot be used: {error}")
