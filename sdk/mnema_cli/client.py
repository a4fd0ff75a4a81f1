"""The HTTP client of commands: the server's address and key, requests, and why one failed."""

from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import typer
from mnema_client.errors import MnemaError
from mnema_client.transport import Connection
from mnema_wire.unique_keys import RepeatedKey, load_json

from mnema_cli.installation import installation
from mnema_cli.output import USAGE, exit_with_error

AsOf = Annotated[str | None, typer.Option("--as-of", help="what Mnema knew at this time")]
ValidAt = Annotated[str | None, typer.Option("--valid-at", help="what was so at this time")]
Where = Annotated[
    str | None, typer.Option("--where", help="""conditions as JSON, such as '{"tags": {"contains": "work"}}'""")
]
PAGE = 200
TIMEOUT_S = 60
"""Seconds for connecting, and for each wait for data."""


def read_where(where: str | None) -> Any:
    """Return the conditions of `--where`, None for None. Exit if they are no JSON."""
    try:
        return None if where is None else load_json(where)
    except RepeatedKey as error:
        exit_with_error(f"--where: {error}", USAGE)
    except (ValueError, RecursionError):
        exit_with_error("--where takes an object as JSON", USAGE)


def read_connection() -> tuple[str, str]:
    """Return base URL and API key from MNEMA_URL and MNEMA_API_KEY, else from the embedded installation.

    Exit with an error if either is missing.
    """
    env = installation().read_connection()
    if not env.get("MNEMA_URL") or not env.get("MNEMA_API_KEY"):
        exit_with_error("set MNEMA_URL and MNEMA_API_KEY, or start the embedded server: mnema up")
    return env["MNEMA_URL"].rstrip("/"), env["MNEMA_API_KEY"]


def open_client() -> httpx.Client:
    """Return a client for the configured server. Exit with an error if its URL or key is malformed."""
    url, key = read_connection()
    try:
        return build_client(url, key)
    except (httpx.InvalidURL, ValueError) as error:
        detail = error.detail if isinstance(error, MnemaError) else error
        exit_with_error(f"MNEMA_URL or MNEMA_API_KEY cannot be used: {detail}")


def build_client(url: str, key: str) -> httpx.Client:
    """Return a client for the server at `url`."""
    return httpx.Client(**Connection(url, key, TIMEOUT_S).client_options())


def request_json(client: httpx.Client, method: str, path: str, **arguments: Any) -> Any:
    """Return the JSON answer of a request. If the server refuses, exit with the problem's code and detail."""
    return request_answer(client, method, path, **arguments)[0]


def request_answer(client: httpx.Client, method: str, path: str, **arguments: Any) -> tuple[Any, httpx.Headers]:
    """Return the JSON answer of a request and its headers. Exit as `request_json` does."""
    try:
        response = client.request(method, path, **arguments)
        if not response.is_success:
            exit_with_error(describe_response(response))
        return response.json() if response.content else None, response.headers
    except httpx.HTTPError as error:
        exit_with_error(describe_failure(client, error))
    except UnicodeEncodeError as error:
        exit_with_error(f"the request cannot be sent: {error}")
    except (httpx.InvalidURL, ValueError) as error:
        exit_with_error(f"{client.base_url} is not a Mnema server: {error}")


def iterate_items(client: httpx.Client, path: str, **filters: Any) -> Iterator[Any]:
    """Yield the items of all pages of a list. A filter that is None is not sent."""
    params = {name: value for name, value in filters.items() if value is not None} | {"limit": PAGE}
    while True:
        page = request_json(client, "GET", path, params=params)
        yield from page["items"]
        if not page["next_cursor"]:
            return
        params["cursor"] = page["next_cursor"]


def describe_failure(client: httpx.Client, error: httpx.HTTPError) -> str:
    """Return why the server gave no answer; if nothing listens at its address, also how to start it."""
    hint = "; start the server with `mnema up` or `make run`, or correct MNEMA_URL"
    reason = str(error) or type(error).__name__
    return f"{client.base_url}: {reason}{hint if isinstance(error, httpx.ConnectError) else ''}"


def describe_response(response: httpx.Response) -> str:
    """Return `403 category_not_allowed: …` for a problem, else the status and the target of a redirect."""
    try:
        body = response.json()
        return f"{response.status_code} {body['code']}: {body['detail']}"
    except (ValueError, KeyError, TypeError):
        location = response.headers.get("Location", "")
        return f"{response.status_code} {response.reason_phrase}{location and f' to {location}; set MNEMA_URL to it'}"
