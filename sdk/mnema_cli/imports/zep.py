"""Zep Cloud's API v4: the threads of each user as turns, and the facts of each user's graph as memories."""

from collections.abc import Iterator
from typing import Any

from mnema_cli.imports.pages import Pages, quote_id
from mnema_cli.imports.records import Bad, Choices, Found, LeftOut, Note

Json = dict[str, Any]
URL = "https://api.getzep.com/api/v4"
OLDEST_FIRST = {"order_by": "created_at", "order": "asc"}


def read_zep(pages: Pages, choices: Choices) -> Iterator[Found]:
    """Yield the messages and facts of every user."""
    for user in pages.read_by_cursor("users", "POST", "users/list", {}, **OLDEST_FIRST):
        if isinstance(user, Bad):
            yield user
        elif uuid := user.get("uuid"):
            name = str(user.get("user_id") or uuid)
            yield from _read_threads(pages, choices, str(uuid), name)
            yield from _read_facts(pages, choices, str(uuid), name)
        else:
            yield Bad("users", "a user without uuid")
    yield Note("not read: graphs that belong to no user, summaries, observations, and text and JSON episodes")


def _read_threads(pages: Pages, choices: Choices, uuid: str, user: str) -> Iterator[Found]:
    for thread in pages.read_by_cursor(f"user {user}", "GET", "threads", user_uuid=uuid, **OLDEST_FIRST):
        if isinstance(thread, Bad):
            yield thread
        elif not thread.get("uuid"):
            yield Bad(f"user {user}", "a thread without uuid")
        else:
            place = f"thread {thread.get('thread_id') or thread['uuid']}"
            path = f"threads/{quote_id(thread['uuid'])}/messages"
            for message in pages.read_by_cursor(place, "GET", path, **OLDEST_FIRST):
                yield message if isinstance(message, Bad) else _make_turn(choices, message, thread, user, place)


def _make_turn(choices: Choices, message: Json, thread: Json, user: str, place: str) -> Found:
    if not (uuid := message.get("uuid")):
        return Bad(place, "a message without uuid")
    return choices.make_turn(
        f"{place}, message {uuid}",
        str(uuid),
        message.get("content"),
        role=message.get("role"),
        user_id=user,
        thread_id=thread.get("thread_id") or thread["uuid"],
        actor_id=message.get("name"),
        created_at=message.get("reference_time") or message.get("created_at"),
        metadata=message.get("metadata"),
    )


def _read_facts(pages: Pages, choices: Choices, uuid: str, user: str) -> Iterator[Found]:
    place = f"facts of user {user}"
    for edge in pages.read_by_cursor(place, "POST", f"graphs/{quote_id(uuid)}/edges/list", {}, **OLDEST_FIRST):
        yield edge if isinstance(edge, Bad) else make_fact(choices, edge, user, place)


def make_fact(choices: Choices, edge: Json, user: str, place: str) -> Found:
    """Return the memory of a fact of a temporal graph. The end of one that has ended is its `valid_to`.

    Facts that were replaced at an unknown time are left out.
    """
    if not (uuid := edge.get("uuid")):
        return Bad(place, "a fact without uuid")
    if edge.get("expired_at") and not edge.get("invalid_at"):
        return LeftOut("facts that are no longer true")
    nodes = {name: edge.get(f"{name}_name") for name in ("source_node", "target_node")}
    return choices.make_memory(
        f"{place}, fact {uuid}",
        str(uuid),
        edge.get("fact"),
        user_id=user,
        names=(edge.get("name"),),
        created_at=edge.get("created_at"),
        valid_from=edge.get("valid_at"),
        valid_to=edge.get("invalid_at"),
        metadata=nodes | {"relation": edge.get("name")},
    )
