"""mnema list, get, edit, users, threads, categories and receipts: what is kept, through the server."""

from typing import Annotated, Any
from uuid import UUID

import typer
from rich.markup import escape

from mnema_cli.client import AsOf, ValidAt, Where, open_client, request_json
from mnema_cli.output import USAGE, AsJson, Columns, exit_with_error, out, print_json, print_page, write_time

Limit = Annotated[int, typer.Option(min=1, max=200)]
Cursor = Annotated[str | None, typer.Option(help="the cursor that the page before printed")]
IfVersion = Annotated[int | None, typer.Option("--if-version", min=1, help="only if the memory has this version")]


def list_memories(
    words: Annotated[str | None, typer.Argument(help='all of these words; "a phrase", or, -without')] = None,
    user: Annotated[str | None, typer.Option(help="user_id")] = None,
    thread: Annotated[str | None, typer.Option()] = None,
    category: Annotated[list[str] | None, typer.Option(help="repeat for several")] = None,
    type_: Annotated[list[str] | None, typer.Option("--type", help="repeat for several")] = None,
    tag: Annotated[str | None, typer.Option()] = None,
    language: Annotated[str | None, typer.Option(help="a code such as de")] = None,
    state: Annotated[str, typer.Option(help="a state, such as superseded or soft_deleted (the bin)")] = "active",
    where: Where = None,
    as_of: AsOf = None,
    valid_at: ValidAt = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List memories, newest first."""
    filters = {
        "q": words,
        "user_id": user,
        "thread_id": thread,
        "category": category,
        "type": type_,
        "tag": tag,
        "language": language,
        "state": state,
        "where": where,
        "as_of": as_of,
        "valid_at": valid_at,
    }
    columns: Columns = {
        "id": lambda memory: memory["id"],
        "user": lambda memory: memory["user_id"],
        "category": lambda memory: memory["category"],
        "type": lambda memory: memory["type"],
        "updated": lambda memory: write_time(memory["updated_at"]),
        "text": lambda memory: memory["text"],
    }
    page = _read_page("/memory", filters, limit, cursor)
    print_page(page, columns, as_json=as_json, whole=False)


def get_memory(memory_id: UUID, as_of: AsOf = None, valid_at: ValidAt = None, as_json: AsJson = False) -> None:
    """Show a memory."""
    named = {"as_of": as_of, "valid_at": valid_at}
    times = {name: value for name, value in named.items() if value is not None}
    with open_client() as client:
        print_memory(request_json(client, "GET", f"/memory/{memory_id}", params=times), as_json)


def edit_memory(
    memory_id: UUID,
    text: Annotated[str | None, typer.Option()] = None,
    category: Annotated[str | None, typer.Option()] = None,
    importance: Annotated[int | None, typer.Option(min=1, max=5)] = None,
    pinned: Annotated[bool | None, typer.Option("--pin/--unpin")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="repeat for several; replaces all tags")] = None,
    expires: Annotated[str | None, typer.Option(help="a moment, or: never")] = None,
    valid_from: Annotated[str | None, typer.Option(help="a moment, or: open")] = None,
    valid_to: Annotated[str | None, typer.Option(help="a moment, or: open")] = None,
    language: Annotated[str | None, typer.Option(help="a code such as de")] = None,
    if_version: IfVersion = None,
    as_json: AsJson = False,
) -> None:
    """Change a memory. Fields that are not named stay as they are."""
    named = {
        "text": text,
        "category": category,
        "importance": importance,
        "pinned": pinned,
        "tags": tag,
        "expires_at": expires,
        "valid_from": valid_from,
        "valid_to": valid_to,
        "language": language,
    }
    changes = {name: value for name, value in named.items() if value is not None}
    if not changes:
        exit_with_error("name at least one change, such as --text or --importance", USAGE)
    with open_client() as client:
        headers = version_header(if_version)
        print_memory(request_json(client, "PATCH", f"/memory/{memory_id}", json=changes, headers=headers), as_json)


def list_users(limit: Limit = 50, cursor: Cursor = None, as_json: AsJson = False) -> None:
    """List users with what is kept of each."""
    columns: Columns = {
        "user": lambda user: user["user_id"],
        "memories": lambda user: user["memories"],
        "threads": lambda user: user["threads"],
        "last activity": lambda user: write_time(user["last_activity_at"]),
    }
    print_page(_read_page("/users", {}, limit, cursor), columns, as_json=as_json)


def list_threads(
    user: Annotated[str | None, typer.Option(help="only this user's")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List threads with what is kept of each."""
    columns: Columns = {
        "thread": lambda thread: thread["thread_id"],
        "users": lambda thread: ", ".join(thread["user_ids"]),
        "turns": lambda thread: thread["turns"],
        "memories": lambda thread: thread["memories"],
        "revision": lambda thread: thread["revision"],
        "last activity": lambda thread: write_time(thread["last_activity_at"]),
    }
    print_page(_read_page("/threads", {"user_id": user}, limit, cursor), columns, as_json=as_json)


def list_categories(limit: Limit = 50, cursor: Cursor = None, as_json: AsJson = False) -> None:
    """List categories with what is kept in each, and the agents that see them."""
    columns: Columns = {
        "category": lambda category: category["name"],
        "memories": lambda category: category["memories"],
        "agents": lambda category: ", ".join(category["agents"]),
        "last activity": lambda category: write_time(category["last_activity_at"]),
        "description": lambda category: category["description"],
    }
    print_page(_read_page("/categories", {}, limit, cursor), columns, as_json=as_json)


def list_receipts(
    user: Annotated[str | None, typer.Option(help="only of queries about this user")] = None,
    thread: Annotated[str | None, typer.Option()] = None,
    agent: Annotated[str | None, typer.Option(help="only what this agent was told")] = None,
    where: Where = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List receipts of answers, newest first: who was told how much, and when."""
    columns: Columns = {
        "query": lambda receipt: receipt["query_id"],
        "time": lambda receipt: write_time(receipt["ts"]),
        "via": lambda receipt: receipt["via"],
        "agent": lambda receipt: receipt["agent"] or "",
        "user": lambda receipt: receipt["user_id"] or "",
        "thread": lambda receipt: receipt["thread_id"] or "",
        "memories": lambda receipt: receipt["memories"],
        "tokens": lambda receipt: "" if receipt["tokens"] is None else receipt["tokens"],
    }
    filters = {"user_id": user, "thread_id": thread, "agent": agent, "where": where}
    print_page(_read_page("/queries", filters, limit, cursor), columns, as_json=as_json)


def _read_page(path: str, filters: dict[str, Any], limit: int, cursor: str | None) -> Any:
    params = {name: value for name, value in {**filters, "cursor": cursor}.items() if value is not None}
    with open_client() as client:
        return request_json(client, "GET", path, params={**params, "limit": limit})


def version_header(version: int | None) -> dict[str, str]:
    """Return the header that makes a change depend on the memory's version."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def print_memory(memory: dict[str, Any], as_json: bool) -> None:
    """Print a memory as lines, or as JSON."""
    if as_json:
        print_json(memory)
        return
    lines = {
        "id": memory["id"],
        "user": memory["user_id"],
        "category": memory["category"],
        "type": memory["type"],
        "state": memory["state"],
        "version": memory["version"],
        "importance": f"{memory['importance']}{', pinned' if memory['pinned'] else ''}",
        "tags": ", ".join(memory["tags"]),
        "thread": memory["thread_id"],
        "agent": memory["agent_id"],
        "created": write_time(memory["created_at"]),
        "updated": write_time(memory["updated_at"]),
        "expires": write_time(memory["expires_at"]) if memory.get("expires_at") else None,
        "origin": memory.get("origin"),
        "true from": write_time(memory["valid_from"]) if memory.get("valid_from") else None,
        "true until": write_time(memory["valid_to"]) if memory.get("valid_to") else None,
        "language": memory.get("language"),
        "text": memory["text"],
        "steps": memory["steps_text"],
    }
    for name, value in lines.items():
        if value not in (None, ""):
            out.print(f"{name:<11} {escape(str(value))}", highlight=False)
