"""The output of commands: tables, JSON, and errors that people can read. It needs no HTTP client."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn, TypeAlias

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

out = Console(soft_wrap=True, emoji=False)
err = Console(stderr=True, soft_wrap=True, emoji=False)
AsJson = Annotated[bool, typer.Option("--json", help="print the server's answer as JSON")]
Columns: TypeAlias = Mapping[str, Callable[[Any], object]]
"""The columns of a table: a title and a function of an item for each."""
USAGE = 2
"""Exit code of a command with wrong arguments."""


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
