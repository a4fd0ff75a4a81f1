"""Honcho's API v3: the messages of each session as turns, and conclusions about people as memories.

Honcho knows peers, not users and assistants. A peer is an assistant if the caller says so, or if Honcho is told not to
observe it. An assistant's message belongs to the user who spoke last in its session.
"""

from collections.abc import Collection, Iterator
from typing import Any

from mnema_cli.imports.pages import AnswerFailed, Pages, list_items, quote_id
from mnema_cli.imports.records import Bad, Choices, Found, LeftOut, Note

Json = dict[str, Any]
URL = "https://api.honcho.dev"


def read_honcho(pages: Pages, choices: Choices, workspace: str, named: Collection[str]) -> Iterator[Found]:
    """Yield the messages and conclusions of a workspace. `named`: the peers that are assistants."""
    base = f"v3/workspaces/{quote_id(workspace)}"
    assistants = set(named)
    for peer in pages.read_by_number("peers", "POST", f"{base}/peers/list", {}):
        if isinstance(peer, Bad):
            yield peer
        elif (peer.get("configuration") or {}).get("observe_me") is False:
            assistants.add(str(peer.get("id")))
    for session in pages.read_by_number("sessions", "POST", f"{base}/sessions/list", {}):
        if isinstance(session, Bad):
            yield session
        elif not session.get("id"):
            yield Bad("sessions", "a session without id")
        else:
            yield from _read_session(pages, choices, base, session, assistants)
    for conclusion in pages.read_by_number("conclusions", "POST", f"{base}/conclusions/list", {}):
        yield conclusion if isinstance(conclusion, Bad) else _make_memory(choices, conclusion, assistants)
    yield Note("not read: summaries, peer cards and representations, which Honcho derives from messages")


def _read_session(
    pages: Pages, choices: Choices, base: str, session: Json, assistants: Collection[str]
) -> Iterator[Found]:
    place = f"session {session['id']}"
    path = f"{base}/sessions/{quote_id(session['id'])}"
    try:
        members = list_items(pages.read_json("GET", f"{path}/peers"), "items", path, place)
    except AnswerFailed as error:
        yield Bad(place, str(error))
        return
    people = [str(peer["id"]) for peer in members if not isinstance(peer, Bad) and peer.get("id")]
    user = next((peer for peer in people if peer not in assistants), None)
    for message in pages.read_by_number(place, "POST", f"{path}/messages/list", {}):
        if isinstance(message, Bad):
            yield message
            continue
        peer = message.get("peer_id")
        is_assistant = isinstance(peer, str) and peer in assistants
        if isinstance(peer, str) and not is_assistant:
            user = peer
        yield _make_turn(choices, message, session, user, "assistant" if is_assistant else "user")


def _make_turn(choices: Choices, message: Json, session: Json, user: str | None, role: str) -> Found:
    place = f"session {session['id']}"
    if not (number := message.get("id")):
        return Bad(place, "a message without id")
    return choices.make_turn(
        f"{place}, message {number}",
        str(number),
        message.get("content"),
        role=role,
        user_id=user,
        thread_id=session["id"],
        actor_id=message.get("peer_id"),
        created_at=message.get("created_at"),
        metadata=message.get("metadata"),
    )


def _make_memory(choices: Choices, conclusion: Json, assistants: Collection[str]) -> Found:
    if not (number := conclusion.get("id")):
        return Bad("conclusions", "a conclusion without id")
    about = conclusion.get("observed_id")
    if isinstance(about, str) and about in assistants:
        return LeftOut("conclusions about an assistant")
    if (level := conclusion.get("level")) == "contradiction":
        return LeftOut("conclusions that only note a contradiction")
    return choices.make_memory(
        f"conclusion {number}",
        str(number),
        conclusion.get("content"),
        user_id=about,
        thread_id=conclusion.get("session_id"),
        names=(level,),
        created_at=conclusion.get("created_at"),
        metadata={"level": level, "observer": conclusion.get("observer_id")},
    )
