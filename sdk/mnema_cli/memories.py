"""mnema remember, query, search and history: commands on memories, through the server."""

from typing import Annotated, Any
from uuid import UUID

import typer
from rich.markup import escape

from mnema_cli.client import AsOf, ValidAt, Where, open_client, read_where, request_json
from mnema_cli.output import AsJson, out, plain_table, print_json, print_table, write_time


def remember_memory(
    text: str,
    user: Annotated[str, typer.Option(help="user_id")],
    category: Annotated[str | None, typer.Option(help="the default category of the type if absent")] = None,
    type_: Annotated[str, typer.Option("--type")] = "semantic",
    thread: Annotated[str | None, typer.Option()] = None,
    agent: Annotated[str | None, typer.Option()] = None,
    importance: Annotated[int | None, typer.Option(min=1, max=5)] = None,
    pinned: Annotated[bool, typer.Option()] = False,
    tag: Annotated[list[str] | None, typer.Option()] = None,
    steps: Annotated[str | None, typer.Option(help="numbered steps; makes the memory procedural")] = None,
    expires: Annotated[str | None, typer.Option(help="no answer contains it from then on")] = None,
    valid_from: Annotated[str | None, typer.Option(help="it is so in the world from then on")] = None,
    valid_to: Annotated[str | None, typer.Option(help="it is so in the world until then")] = None,
    language: Annotated[str | None, typer.Option(help="a code such as de; told from the text if absent")] = None,
    trim: Annotated[bool, typer.Option()] = False,
    as_json: AsJson = False,
) -> None:
    """Write a memory."""
    body = {
        "user_id": user,
        "category": category,
        "text": text,
        "type": "procedural" if steps else type_,
        "thread_id": thread,
        "agent_id": agent,
        "importance": importance,
        "pinned": pinned,
        "tags": tag or [],
        "steps_text": steps,
        "expires_at": expires,
        "valid_from": valid_from,
        "valid_to": valid_to,
        "language": language,
    }
    with open_client() as client:
        written = request_json(client, "POST", "/memory", json=body, params={"trim": trim})
    if as_json:
        print_json(written)
        return
    extra = f" (matched, similarity {written['similarity']:.2f})" if written.get("matched_id") else ""
    extra += f" ({written['state']}: a later statement is stored)" if written.get("state") else ""
    out.print(f"{written['action']} {written.get('id') or written.get('reason') or ''}{extra}", highlight=False)


def query_memory(
    text: str,
    agent: Annotated[str | None, typer.Option(help="who asks; the default agent if absent")] = None,
    category: Annotated[list[str] | None, typer.Option(help="repeat for several")] = None,
    user: Annotated[str | None, typer.Option()] = None,
    language: Annotated[str | None, typer.Option(help="only memories of this language, a code such as de")] = None,
    top_k: Annotated[int | None, typer.Option(min=1, max=50)] = None,
    budget: Annotated[int | None, typer.Option(help="tokens", min=1, max=8192)] = None,
    threshold: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    min_relevance: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    thread: Annotated[str | None, typer.Option()] = None,
    since_rev: Annotated[int | None, typer.Option(min=0)] = None,
    where: Where = None,
    as_of: AsOf = None,
    valid_at: ValidAt = None,
    explain: Annotated[bool, typer.Option()] = False,
    dates: Annotated[
        bool | None, typer.Option("--dates/--no-dates", help="the day of each memory's last change")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Query the memory as an agent."""
    body: dict[str, Any] = {
        "agent": agent,
        "query": text,
        "categories": category,
        "filters": {"user_id": user, "language": language},
        "where": read_where(where),
        "top_k": top_k,
        "budget_tokens": budget,
        "threshold": threshold,
        "min_relevance": min_relevance,
        "thread_id": thread,
        "since_rev": since_rev,
        "as_of": as_of,
        "valid_at": valid_at,
        "explain": explain,
        "dates": dates,
    }
    given = {name: value for name, value in body.items() if value is not None}  # the server fills in its defaults
    with open_client() as client:
        answer = request_json(client, "POST", "/memory/query", json=given)
    if as_json:
        print_json(answer)
    else:
        print_answer(answer)


def print_answer(answer: dict[str, Any]) -> None:
    """Print header, answer from facts, bullets and related bullets, and with explain the parts of each score."""
    if answer["header"]:
        out.print(escape(answer["header"]), highlight=False)
    if (told := answer.get("fact_answer")) and told["answered"]:
        out.print(f"- {escape(told['text'])}", highlight=False)
    for item in answer["items"]:
        out.print(f"- {escape(item['text'])}", highlight=False)
        if "score" in item:
            parts = "  ".join(f"{name} {value:+.3f}" for name, value in item["score"]["parts"].items())
            out.print(f"    [dim]{item['score']['total']:+.3f} = {parts}[/]", highlight=False)
    for item in answer["related"]:
        out.print(f"- (related) {escape(item['text'])}", highlight=False)
    for hidden in answer.get("hidden") or ():
        out.print(f"hidden: {escape(hidden['message'])}", highlight=False)
    if not (answer["items"] or answer["related"] or (told and told["answered"])):
        out.print("No stored memory matches; --explain says what was left out.", highlight=False)
    note = f", degraded: {answer['degraded']}" if answer.get("degraded") else ""
    out.print(f"[dim]{answer['tokens']} tokens, {answer['took_ms']:.1f} ms{note}[/]", highlight=False)


def search_memories(
    text: str,
    user: Annotated[str | None, typer.Option(help="only this user's; else all users of the tenant")] = None,
    thread: Annotated[str | None, typer.Option(help="decides near ties; never filters")] = None,
    type_: Annotated[list[str] | None, typer.Option("--type", help="turn, memory or chunk; repeat for several")] = None,
    top_k: Annotated[int | None, typer.Option(min=1, max=50)] = None,
    budget: Annotated[int | None, typer.Option(help="tokens", min=1, max=8192)] = None,
    min_relevance: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    where: Where = None,
    as_of: AsOf = None,
    valid_at: ValidAt = None,
    as_json: AsJson = False,
) -> None:
    """Search turns, memories and chunks across threads, with the source of each."""
    body: dict[str, Any] = {
        "query": text,
        "user_id": user,
        "where": read_where(where),
        "thread_id": thread,
        "types": type_,
        "top_k": top_k,
        "budget_tokens": budget,
        "min_relevance": min_relevance,
        "as_of": as_of,
        "valid_at": valid_at,
    }
    given = {name: value for name, value in body.items() if value is not None}
    with open_client() as client:
        answer = request_json(client, "POST", "/search", json=given)
    if as_json:
        print_json(answer)
    else:
        print_results(answer)


def print_results(answer: dict[str, Any]) -> None:
    """Print the line of each result and, below it, its source."""
    for line, result in zip(answer["text"].splitlines(), answer["results"], strict=True):
        source = result["source"]
        said = f"{source['role'] or ''} {source['thread_id'] or ''}".strip()
        where = (result["type"], source["user_id"], said, write_time(source["created_at"]), result["id"])
        out.print(escape(line), highlight=False)
        out.print(f"    [dim]{escape('  '.join(filter(None, where)))}[/]", highlight=False)
    note = f", degraded: {answer['degraded']}" if answer.get("degraded") else ""
    out.print(f"[dim]{len(answer['results'])} found, {answer['took_ms']:.1f} ms{note}[/]", highlight=False)


def show_history(
    memory_id: UUID, limit: Annotated[int, typer.Option(min=1, max=200)] = 20, as_json: AsJson = False
) -> None:
    """Show the history of a memory, newest first."""
    with open_client() as client:
        page = request_json(client, "GET", f"/memory/{memory_id}/history", params={"limit": limit})
    if as_json:
        print_json(page)
        return
    rows = plain_table("when", "event", "actor", "text")
    for row in page["items"]:
        text = row["meta"].get("after", row["meta"].get("before", {})).get("text", "")
        rows.add_row(write_time(row["ts"]), row["event"], escape(row["actor"] or ""), escape(text))
    print_table(rows)
