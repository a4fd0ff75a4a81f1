"""The CLI's HTTP client: the server's address and key, tables, and readable errors."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn, TypeAlias

import httpx
import typer
from mnema_client.errors import MnemaError
from mnema_client.transport import Connection
from mnema_wire.unique_keys import RepeatedKey, load_json
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from mnema_cli.installation import installation

out = Console(soft_wrap=True, emoji=False)
err = Console(stderr=True, soft_wrap=True, emoji=False)
AsOf = Annotated[str | None, typer.Option("--as-of", help="what Mnema knew at this time")]
ValidAt = Annotated[str | None, typer.Option("--valid-at", help="what was so at this time")]
Where = Annotated[
    str | None, typer.Option("--where", help="""conditions as JSON, such as '{"tags": {"contains": "work"}}'""")
]
AsJson = Annotated[bool, typer.Option("--json", help="print the server's answer as JSON")]
Columns: TypeAlias = Mapping[str, Callable[[Any], object]]
"""The columns of a table: a title and a function of an item for each."""
PAGE = 200
TIMEOUT_S = 60
"""Seconds for connecting, and for each wait for data."""


USAGE = 2
"""Exit code of a command with wrong arguments."""


def read_where(where: str | None) -> Any:
    """Return the conditions of `--where`, None for None. Exit if they are no JSON."""
    try:
        return None if where is None else load_json(where)
    except RepeatedKey as error:
        exit_with_error(f"--where: {error}", USAGE)
    except (ValueError, RecursionError):
        exit_with_error("--where takes an object as JSON", USAGE)


def show_text(text: str) -> str:
    """Return a text with escapes for all characters that a terminal does not show, or that control it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def exit_with_error(message: str, code: int = 1) -> NoReturn:
    """Print `message` on stderr and exit with `code`."""
    err.print(f"[bold red]error[/] {escape(message)}", highlight=False)
    raise typer.Exit(code)


def error_text(error: Exception) -> str:
    """Return an error as one line for people."""
    code, detail = (getattr(error, name, None) for name in ("code", "detail"))
    if isinstance(code, str) and isinstance(detail, str):
        return f"{code}: {detail}"
    if isinstance(error, ValueError) and hasattr(error, "errors"):  # of pydantic, which takes long to import
        problems = (f"MNEMA_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        return "settings: " + "; ".join(problems)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def write_time(moment: datetime | str | None) -> str:
    """Return a time as `2026-11-23 08:30:05Z` in UTC, "" for None. A text is an ISO 8601 time of the server."""
    if moment is None:
        return ""
    parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return f"{parsed.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def plain_table(*columns: str) -> Table:
    """Return an empty table without borders, so that grep and cut work on its rows."""
    return Table(*columns, box=None, pad_edge=False)


def print_table(rows: Table, *, whole: bool = False) -> None:
    """Print a table. With `whole`, or without a terminal, no cell is cut or wrapped."""
    if not whole and out.is_terminal:
        out.print(rows)
        return
    natural = Measurement.get(out, out.options.update(max_width=1_000_000), rows).maximum
    Console(width=natural, soft_wrap=True, emoji=False).print(rows)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    out.print_json(json.dumps(value, default=_json_text), highlight=False)


def _json_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def print_page(page: Any, columns: Columns, *, as_json: bool, whole: bool = True) -> None:
    """Print a page `{items, next_cursor}` as a table or as JSON."""
    if as_json:
        print_json(page)
        return
    rows = plain_table(*columns)
    for item in page["items"]:
        cells = (value(item) for value in columns.values())
        rows.add_row(*("" if cell is None else escape(show_text(str(cell))) for cell in cells))
    print_table(rows, whole=whole)
    if page.get("next_cursor"):
        err.print(f"more: --cursor {page['next_cursor']}", highlight=False, markup=False)


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
