"""mnema status: the parts of an installation that run on this machine."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import typer
from mnema_cli.output import out
from rich.markup import escape

from app.bootstrap.spaces import open_spaces
from app.config.settings import Settings
from app.domain.errors import MnemaError
from app.embedded.console_keeper import console_answers
from app.embedded.home import Home

CONSOLE_S = 5.0
BACKGROUND = ("redis", "worker", "beat")
"""The background processes of `mnema up`."""
ANSWERS = ("ready", "degraded")
"""The states of a server that answers requests."""


def print_status() -> None:
    """Show what is running, and which checks of the server fail. Exit code 1 if it cannot answer requests.

    `degraded`: it can, but background jobs wait.
    """
    home = Home()
    pids = home.running_pids()
    url = home.demo_env().get("MNEMA_URL", "")
    out.print(f"home      {home.path}", highlight=False)
    out.print(f"postgres  {'running' if home.is_installed and home.postgres.is_running() else 'stopped'}")
    ready, checks = _ask_server(url) if pids else ("stopped", {})
    out.print(f"server    {ready}{'' if ready == 'stopped' else f'  {url}'}", highlight=False)
    for name in BACKGROUND:
        is_operators = name == "redis" and checks.get("broker") == "ok"
        out.print(f"{name:<9} {'running' if name in pids else 'runs elsewhere' if is_operators else 'stopped'}")
    out.print(f"console   {_describe_console(home, pids)}", highlight=False)
    if ready in ANSWERS and home.postgres.is_running():
        out.print(f"past      {describe_past(home.server_settings(home.postgres.start_server()))}", highlight=False)
    for check, verdict in checks.items():
        if verdict != "ok" and not verdict.startswith("none:"):
            out.print(f"{check}: {escape(verdict)}", highlight=False)
    raise typer.Exit(0 if ready in ANSWERS else 1)


def describe_past(settings: Settings) -> str:
    """Return how far the past of before an upgrade is read, so that questions about it can be answered."""

    async def count_past() -> int:
        async with open_spaces(settings) as spaces:
            return await spaces.count_past()

    try:
        left = asyncio.run(count_past())
    except MnemaError as error:
        return f"unknown: {escape(error.detail)}"
    return f"{left} memories left to read; run: mnema run embed" if left else "read"


def _ask_server(url: str) -> tuple[str, Mapping[str, str]]:
    """Return the server's readiness and its verdicts by check; none while it is starting."""
    try:
        answer = httpx.get(f"{url}/ready", timeout=10, trust_env=False).json()
        return str(answer["status"]), {check: str(verdict) for check, verdict in answer["checks"].items()}
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
        return "starting", {}


def _describe_console(home: Home, pids: Mapping[str, Any]) -> str:
    """Return the state of the console and, if it has one, its address."""
    if "supervisor" not in pids:
        return "stopped"
    try:
        address = home.console_file.read_text(encoding="utf-8")
    except OSError:
        return "off"
    if "console" not in pids:
        return f"ended  {address}  (see console.log in MNEMA_HOME)"
    return f"{'running' if console_answers(address, CONSOLE_S) else 'starting'}  {address}"
