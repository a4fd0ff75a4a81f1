"""mnema export and erase: export or erase a user's data, through the server."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import httpx
import typer
from rich.markup import escape

from mnema_cli.client import Where, describe_failure, describe_response, open_client, request_answer
from mnema_cli.output import err, error_text, exit_with_error, out, show_text

UserOption = Annotated[str, typer.Option("--user", help="user_id")]


def export_user(
    user: UserOption,
    to: Annotated[Path, typer.Option(help="the file to create or replace")],
    where: Where = None,
) -> None:
    """Write all data of a user to a file, one JSON record a line.

    With --where: the memories alone that match.
    """
    draft = to.with_name(f"{to.name}.part")
    with open_client() as client:
        try:
            _download_export(client, f"{_user_path(user)}/export", {} if where is None else {"where": where}, draft)
            draft.replace(to)
        except OSError as error:
            exit_with_error(f"cannot write {error_text(error)}")
        finally:
            with suppress(OSError):
                draft.unlink()
    with to.open("rb") as file:
        out.print(f"{sum(1 for _ in file)} records written to {escape(str(to))}", highlight=False)


def _download_export(client: httpx.Client, path: str, params: dict[str, str], to: Path) -> None:
    try:
        with client.stream("GET", path, params=params) as response, to.open("wb") as file:
            if not response.is_success:
                response.read()
                exit_with_error(describe_response(response))
            for chunk in response.iter_bytes():
                file.write(chunk)
    except httpx.HTTPError as error:
        exit_with_error(describe_failure(client, error))


def _user_path(user: str) -> str:
    """Return the path of a user. Dots are encoded too, because clients would resolve a user called `..`."""
    return f"/users/{quote(user, safe='').replace('.', '%2E')}"


def erase_user(user: UserOption, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False) -> None:
    """Erase a user for good and print the receipt."""
    if not yes:
        typer.confirm(f"Erase all data of {user!r}? This cannot be undone", abort=True)
    with open_client() as client:
        receipt, headers = request_answer(client, "POST", f"{_user_path(user)}/erase")
    out.print(f"erased {escape(receipt['user_id'])} at {receipt['erased_at']}", highlight=False)
    for name, count in receipt["counts"].items():
        out.print(f"  {name:<18} {count}", highlight=False)
    if unreached := headers.get("Mnema-Unreached"):
        advice = "what a move left there may still have the texts, until a worker or --forget-old deletes it"
        err.print(f"not reached: {escape(show_text(unreached))}; {advice}", highlight=False)
