"""mnema facts: ranked lists and single values of a user, through the server."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from mnema_cli.client import AsOf, ValidAt, Where, iterate_items, open_client, request_json
from mnema_cli.installation import installation
from mnema_cli.output import USAGE, AsJson, exit_with_error, out, plain_table, print_json, print_table

facts_app = typer.Typer(no_args_is_help=True, help="Ranked lists and single values of a user.")
UserOption = Annotated[str, typer.Option("--user", help="user_id")]
ThreadOption = Annotated[str | None, typer.Option("--thread", help="thread_id")]
TOPIC_HELP = "a topic's key (favorite_colors) or its noun (color)"


@facts_app.command("list")
def facts_list(
    user: UserOption,
    thread: ThreadOption = None,
    topic: Annotated[str | None, typer.Option(help=TOPIC_HELP)] = None,
    as_of: AsOf = None,
    valid_at: ValidAt = None,
    where: Where = None,
    as_json: AsJson = False,
) -> None:
    """List a user's facts by topic, thread and rank."""
    which = {"as_of": as_of, "valid_at": valid_at, "where": where}
    key = topic and _topic_key(topic)
    with open_client() as client:
        items = list(iterate_items(client, "/facts", user_id=user, thread_id=thread, topic_key=key, **which))
    if as_json:
        print_json({"items": items, "next_cursor": None})
        return
    rows = plain_table("topic", "rank", "value", "thread", "id")
    for fact in items:
        rank = "" if fact["rank"] is None else str(fact["rank"])
        rows.add_row(fact["topic_key"], rank, escape(fact["value"]), escape(fact["thread_id"] or ""), fact["id"])
    print_table(rows)


@facts_app.command("set")
def facts_set(
    topic: Annotated[str, typer.Argument(help=TOPIC_HELP)],
    words: Annotated[
        list[str], typer.Argument(metavar="[RANK] VALUE", help="without a rank: the topic's single value")
    ],
    user: UserOption,
    thread: ThreadOption = None,
    as_json: AsJson = False,
) -> None:
    """Store one value of a topic."""
    *ranks, value = words
    if len(ranks) > 1:
        exit_with_error("give [RANK] VALUE, and put a value of several words in quotes", USAGE)
    if not all(rank.isdecimal() for rank in ranks):
        exit_with_error(f"RANK {ranks[0]!r} is not a whole number", USAGE)
    fact: dict[str, Any] = {"topic_key": _topic_key(topic), "kind": "single", "value": value}
    if ranks:
        fact |= {"kind": "ranked", "rank": int(ranks[0])}
    _store_facts({"user_id": user, "thread_id": thread, "facts": [fact]}, "a newer statement decides this", as_json)


@facts_app.command("tell")
def facts_tell(text: str, user: UserOption, thread: ThreadOption = None, as_json: AsJson = False) -> None:
    """Store the facts that a message of the user states, such as "My favorite colors are blue and green"."""
    _store_facts({"user_id": user, "thread_id": thread, "text": text}, "the text states no facts", as_json)


@facts_app.command("answer")
def facts_answer(
    question: str,
    user: UserOption,
    thread: ThreadOption = None,
    as_of: AsOf = None,
    valid_at: ValidAt = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question such as "What's my second favorite color?" from the stored facts."""
    with open_client() as client:
        body = {"user_id": user, "thread_id": thread, "query": question, "as_of": as_of, "valid_at": valid_at}
        answer = request_json(client, "POST", "/facts/answer", json=body)
    if as_json:
        print_json(answer)
    elif answer["text"] is None:
        exit_with_error("this is no question about facts; ask it with: mnema query")
    else:
        out.print(escape(answer["text"]), highlight=False)


def _store_facts(body: dict[str, Any], nothing: str, as_json: bool) -> None:
    """Store facts and print what was done to each, or why there are none."""
    with open_client() as client:
        stored = request_json(client, "POST", "/facts", json=body)
    if as_json:
        print_json(stored)
        return
    for fact in stored["facts"]:
        rank = "" if fact["rank"] is None else f" #{fact['rank']}"
        action = fact["action"] or "unchanged"
        out.print(f"{action} {fact['topic_key']}{rank}: {escape(fact['value'])}", highlight=False)
    if not stored["facts"]:
        out.print(f"nothing stored: {nothing}", highlight=False)


def _topic_key(topic: str) -> str:
    """Return the key of a topic. Exit with an error if there is none."""
    key = installation().find_topic(topic)
    if key is None:
        exit_with_error(f"{topic!r} names no topic; give a key such as favorite_colors, or a noun such as color", USAGE)
    return key
