"""mnema mcp: the stdio server that an MCP client starts."""

import asyncio
import signal
from enum import StrEnum
from typing import Annotated

import httpx
import typer
from mnema_cli.client import TIMEOUT_S, read_connection
from mnema_cli.output import exit_with_error
from mnema_wire.http_options import client_options


class ToolNames(StrEnum):
    """The tool names to list: plain ones, or those with a dot."""

    PLAIN = "plain"
    DOTTED = "dotted"


def serve_mcp(
    agent: Annotated[str | None, typer.Option(help="the agent that every call speaks as")] = None,
    user: Annotated[str | None, typer.Option(help="the user that every call is about")] = None,
    thread: Annotated[str | None, typer.Option(help="the conversation of every call")] = None,
    names: Annotated[
        ToolNames, typer.Option(help="plain: memory_query, as model APIs need it; dotted: memory.query")
    ] = ToolNames.PLAIN,
) -> None:
    """Serve MCP on stdin and stdout, as a client of the server at MNEMA_URL with MNEMA_API_KEY.

    The model cannot choose what --agent, --user and --thread fix.
    """
    # the import takes half a second; other commands should not wait for it
    from app.mcp.bridge import fixed_headers, serve_stdio

    url, key = read_connection()
    # there is nothing to clean up, and a waiting read of stdin would delay an orderly exit
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        options = client_options(url, key, TIMEOUT_S)
        options["headers"] = {**options["headers"], **fixed_headers({"agent": agent, "user": user, "thread": thread})}
        asyncio.run(serve_stdio(httpx.AsyncClient(**options), names))
    except (httpx.InvalidURL, ValueError) as error:
        exit_with_error(f"MNEMA_URL or MNEMA_API_KEY cannot be used: {error}")
