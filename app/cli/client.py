"""The CLI as an HTTP client: where the server is, which key to use, and errors a person can read."""

import os
from typing import Any, NoReturn

import httpx
import typer
from rich.console import Console

from app.cli.embedded.home import Home

out = Console(soft_wrap=True)
err = Console(stderr=True)


def fail(message: str, code: int = 1) -> NoReturn:
    """Say what is wrong and leave."""
    err.print(f"[bold red]error[/] {message}", highlight=False)
    raise typer.Exit(code)


def connection() -> tuple[str, str]:
    """Base URL and API key: MNEMA_URL and MNEMA_API_KEY, else those of the embedded installation."""
    env = {**Home().demo_env(), **{k: v for k, v in os.environ.items() if k in ("MNEMA_URL", "MNEMA_API_KEY")}}
    if not env.get("MNEMA_URL") or not env.get("MNEMA_API_KEY"):
        fail("set MNEMA_URL and MNEMA_API_KEY, or start the embedded server: mnema up")
    return env["MNEMA_URL"].rstrip("/"), env["MNEMA_API_KEY"]


def open_client() -> httpx.Client:
    """A client for the configured server."""
    url, key = connection()
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


def request(client: httpx.Client, method: str, path: str, **arguments: Any) -> Any:
    """The JSON answer; leaves with the problem's code and detail when the server refuses."""
    try:
        response = client.request(method, path, **arguments)
    except httpx.HTTPError as error:
        fail(f"{client.base_url}: {error or type(error).__name__}")
    if response.is_error:
        fail(describe(response))
    return response.json() if response.content else None


def describe(response: httpx.Response) -> str:
    """`403 category_not_allowed: …` for a problem, else the status."""
    try:
        body = response.json()
        return f"{response.status_code} {body['code']}: {body['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code} {response.reason_phrase}"
