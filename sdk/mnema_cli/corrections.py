"""mnema correct, forget, restore, retract and supersede: what became of a memory, through the server."""

from typing import Annotated, Any, Literal
from uuid import UUID

import httpx
import typer
from rich.markup import escape

from mnema_cli.browse import IfVersion, print_memory, version_header
from mnema_cli.client import open_client, request_json
from mnema_cli.output import USAGE, AsJson, exit_with_error, out, print_json, show_text, write_time


def correct_memory(
    memory_id: UUID,
    text: Annotated[str, typer.Argument(help="the right text")],
    was: Annotated[
        Literal["superseded", "wrong"],
        typer.Option(help="superseded: it was true until now; wrong: it was never true"),
    ],
    valid_from: Annotated[str | None, typer.Option(help="the new text is so from then on")] = None,
    as_json: AsJson = False,
) -> None:
    """Replace a memory by the right text. The stored one ends or is retracted; `mnema restore` brings it back."""
    with open_client() as client:
        user_id = request_json(client, "GET", f"/memory/{memory_id}")["user_id"]
        body = {"user_id": user_id, "id": str(memory_id), "text": text, "was": was, "valid_from": valid_from}
        corrected = request_json(client, "POST", "/memory/correct", json=body)
    if as_json:
        print_json(corrected)
        return
    out.print(f"created {corrected['id']}", highlight=False)
    out.print(f"{corrected['state']} {corrected['corrected_id']}", highlight=False)


def forget_memory(
    memory_id: Annotated[UUID | None, typer.Argument()] = None,
    description: Annotated[str | None, typer.Option(help="words for what to forget, instead of an id")] = None,
    user: Annotated[str | None, typer.Option(help="whose memories the description means")] = None,
    purge: Annotated[bool, typer.Option("--purge", help="delete it and its text for good; needs an id")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    if_version: IfVersion = None,
) -> None:
    """Show a memory, ask, and bin or delete it. `mnema restore` brings it back from the bin."""
    if (memory_id is None) == (description is None):
        exit_with_error("name a memory by its id, or by --description", USAGE)
    with open_client() as client:
        if memory_id is not None:
            _forget_one(client, memory_id, version_header(if_version), purge=purge, yes=yes)
        elif user is None or purge or if_version is not None:
            exit_with_error("--description needs --user; --purge and --if-version need an id", USAGE)
        else:
            _forget_described(client, {"user_id": user, "description": description}, yes=yes)


def _forget_one(client: httpx.Client, memory_id: UUID, headers: dict[str, str], *, purge: bool, yes: bool) -> None:
    memory = request_json(client, "GET", f"/memory/{memory_id}")
    if not _may_go(memory, yes, "Delete it for good? This cannot be undone" if purge else "Move it to the bin?"):
        return
    kept = request_json(client, "DELETE", f"/memory/{memory_id}", params={"purge": purge}, headers=headers)
    if kept:
        _print_binned(kept)
    else:
        out.print("deleted for good")


def _forget_described(client: httpx.Client, named: dict[str, Any], *, yes: bool) -> None:
    found = request_json(client, "POST", "/memory/forget", json=named)["matches"]
    chosen = [memory["id"] for memory in found if _may_go(memory, yes, "Move it to the bin?")]
    if not found:
        out.print("no memory matches", highlight=False)
    if chosen:
        body = {"user_id": named["user_id"], "confirm": chosen}
        for memory in request_json(client, "POST", "/memory/forget", json=body)["forgotten"]:
            _print_binned(memory)


def _may_go(memory: dict[str, Any], yes: bool, question: str) -> bool:
    """Show a memory, and return the answer to the question whether it may go."""
    out.print(f"{memory['id']} {escape(show_text(memory['text']))}", highlight=False)
    return yes or typer.confirm(question)


def _print_binned(memory: dict[str, Any]) -> None:
    until = write_time(memory["purge_at"]) or "it is restored"
    out.print(f"{memory['id']} is in the bin until {until}", highlight=False)


def restore_memory(memory_id: UUID, as_json: AsJson = False) -> None:
    """Make a memory active again, whatever it is now."""
    with open_client() as client:
        print_memory(request_json(client, "POST", f"/memory/{memory_id}/restore"), as_json)


def retract_memory(memory_id: UUID, if_version: IfVersion = None, as_json: AsJson = False) -> None:
    """Mark a memory as wrong. `mnema restore` undoes it."""
    with open_client() as client:
        headers = version_header(if_version)
        print_memory(request_json(client, "POST", f"/memory/{memory_id}/retract", headers=headers), as_json)


def supersede_memory(
    memory_id: UUID,
    by: Annotated[UUID | None, typer.Option(help="the memory that takes its place")] = None,
    valid_to: Annotated[str | None, typer.Option(help="when it ceased to be so; now if absent")] = None,
    if_version: IfVersion = None,
    as_json: AsJson = False,
) -> None:
    """Mark a memory as true until now. `mnema restore` undoes it."""
    body = {"by": str(by) if by else None, "valid_to": valid_to}
    with open_client() as client:
        headers = version_header(if_version)
        path = f"/memory/{memory_id}/supersede"
        print_memory(request_json(client, "POST", path, json=body, headers=headers), as_json)
