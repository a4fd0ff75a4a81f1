"""mnema status: what of an installation on this machine runs."""

import contextlib

import httpx
import typer

from app.cli.client import out
from app.embedded.console_keeper import console_answers
from app.embedded.home import Home

CONSOLE_S = 5.0


def print_status() -> None:
    """Show what is running. Exit code 1 if the server cannot answer requests.

    `degraded`: it can, but background jobs wait.
    """
    home = Home()
    url = home.demo_env().get("MNEMA_URL", "")
    out.print(f"home      {home.path}", highlight=False)
    out.print(f"postgres  {'running' if home.is_installed and home.postgres.is_running() else 'stopped'}")
    ready = "stopped"
    if home.running_pids():
        ready = "starting"
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
            ready = httpx.get(f"{url}/ready", timeout=10, trust_env=False).json()["status"]
    out.print(f"server    {ready}{'' if ready == 'stopped' else f'  {url}'}", highlight=False)
    out.print(f"console   {_describe_console(home)}", highlight=False)
    raise typer.Exit(0 if ready in ("ready", "degraded") else 1)


def _describe_console(home: Home) -> str:
    """Return the state of the console and, if it has one, its address."""
    pids = home.running_pids()
    if "supervisor" not in pids:
        return "stopped"
    try:
        address = home.console_file.read_text(encoding="utf-8")
    except OSError:
        return "off"
    if "console" not in pids:
        return f"ended  {address}  (see console.log in MNEMA_HOME)"
    return f"{'running' if console_answers(address, CONSOLE_S) else 'starting'}  {address}"
