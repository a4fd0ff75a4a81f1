"""Graphiti's HTTP server: a group's message episodes as turns, and the facts that they name as memories.

The server lists neither groups nor facts. Episodes name their facts, and each fact is one request.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mnema_cli.imports.pages import AnswerFailed, Pages, list_items, quote_id
from mnema_cli.imports.records import Bad, Choices, Found, LeftOut, Note
from mnema_cli.imports.zep import make_fact

Json = dict[str, Any]
URL = "http://127.0.0.1:8000"
SPOKEN = re.compile(r"(?P<actor>[^\n]*?)\((?P<role>user|assistant|system)\): (?P<text>.*)", re.DOTALL)
"""The text of a message's episode, as the server writes it."""


def read_graphiti(pages: Pages, choices: Choices, groups: Sequence[str], last: int) -> Iterator[Found]:
    """Yield the newest `last` messages of each group, oldest first, and the facts of their episodes."""
    for group in groups:
        path = f"episodes/{quote_id(group)}"
        place = f"group {group}"
        try:
            answer = {"episodes": pages.read_json("GET", path, last_n=last)}
            episodes = list_items(answer, "episodes", path, place)
        except AnswerFailed as error:
            yield Bad(place, str(error))
            continue
        if len(episodes) >= last:
            yield Note(f"{place} has at least {last} episodes; older ones are not read unless --last is higher")
        yield from _read_group(pages, choices, group, sorted(episodes, key=_valid_at))


def _read_group(pages: Pages, choices: Choices, group: str, episodes: Sequence[Json | Bad]) -> Iterator[Found]:
    place = f"group {group}"
    facts: dict[str, None] = {}
    for episode in episodes:
        if isinstance(episode, Bad):
            yield episode
            continue
        facts |= dict.fromkeys(uuid for uuid in episode.get("entity_edges") or [] if isinstance(uuid, str))
        yield _make_turn(choices, episode, group, place)
    for uuid in facts:
        try:
            fact = pages.read_json("GET", f"entity-edge/{quote_id(uuid)}")
        except AnswerFailed as error:
            yield Bad(f"{place}, fact {uuid}", str(error))
            continue
        yield (
            make_fact(choices, fact, choices.user or group, place)
            if isinstance(fact, dict)
            else Bad(f"{place}, fact {uuid}", "not a JSON object")
        )


def _make_turn(choices: Choices, episode: Json, group: str, place: str) -> Found:
    if not (uuid := episode.get("uuid")):
        return Bad(place, "an episode without uuid")
    if episode.get("source") != "message":
        return LeftOut("episodes that are no messages")
    place = f"{place}, episode {uuid}"
    if not (spoken := SPOKEN.fullmatch(str(episode.get("content") or ""))):
        return Bad(place, "the content is not `name(role): text`")
    return choices.make_turn(
        place,
        str(uuid),
        spoken["text"],
        role=spoken["role"],
        user_id=choices.user or group,
        thread_id=choices.thread or group,
        actor_id=spoken["actor"].strip(),
        created_at=episode.get("valid_at") or episode.get("created_at"),
        metadata={"name": episode.get("name"), "source_description": episode.get("source_description")},
    )


def _valid_at(episode: Json | Bad) -> str:
    return "" if isinstance(episode, Bad) else str(episode.get("valid_at") or episode.get("created_at") or "")
