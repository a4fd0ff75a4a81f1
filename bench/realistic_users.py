"""Made-up users with memories as a product stores them, and labelled questions, in bench/realistic_users/*.yaml.

A memory has a `key`, a `text` and the fields of a memory; `type` is semantic by default, `steps` are a procedure's
steps, and a memory with `thread`, `seq`, `actor` and `role` is a turn. `replaces` names the older memory whose value it
changes. Memories with one `group` say the same thing.

A question has the asking `agent`, the text `ask`, perhaps `categories`, and `relevant`: the keys of the memories that
answer it, the best first; none if nothing stored does. Each member of a relevant memory's group answers it as well.
What a relevant memory replaces is stale for that question.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from app.domain.memory.memory import MemoryType, NewMemory

FOLDER: Final = Path(__file__).with_name("realistic_users")
USERS: Final = ("development", "held_out")


@dataclass(frozen=True, slots=True)
class Question:
    """A labelled question. `relevant` and `stale` hold keys of memories; `relevant` is empty if nothing answers it."""

    agent: str
    ask: str
    categories: tuple[str, ...]
    relevant: frozenset[str]
    stale: frozenset[str]


@dataclass(frozen=True, slots=True)
class RealisticUser:
    """A user with memories by key, oldest first, and questions.

    `groups` has the group of each paraphrase, `replaced` the older memory whose value a memory changes.
    """

    name: str
    user_id: str
    asked_at: datetime
    memories: dict[str, NewMemory]
    groups: dict[str, str]
    replaced: dict[str, str]
    questions: tuple[Question, ...]


def load_user(name: str) -> RealisticUser:
    """Return a user of `USERS`. Raise ValueError if a question or a memory names an unknown key."""
    raw = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    rows: dict[str, dict[str, Any]] = {row["key"]: row for row in raw["memories"]}
    memories = {key: _new_memory(raw["user_id"], row) for key, row in rows.items()}
    named = {key for q in raw["questions"] for key in q["relevant"]} | {
        r["replaces"] for r in rows.values() if "replaces" in r
    }
    if len(rows) < len(raw["memories"]) or (unknown := named - rows.keys()):
        raise ValueError(
            f"{name}: a key is used twice or not known: {unknown if len(rows) == len(raw['memories']) else ''}"
        )
    return RealisticUser(
        raw["name"],
        raw["user_id"],
        _as_moment(raw["asked_at"]),
        dict(sorted(memories.items(), key=lambda item: item[1].created_at or raw["asked_at"])),
        {key: row["group"] for key, row in rows.items() if "group" in row},
        {key: row["replaces"] for key, row in rows.items() if "replaces" in row},
        tuple(_labelled_question(q, rows) for q in raw["questions"]),
    )


def _labelled_question(raw: dict[str, Any], rows: dict[str, dict[str, Any]]) -> Question:
    groups = {rows[key].get("group") for key in raw["relevant"]} - {None}
    relevant = {*raw["relevant"], *(key for key, row in rows.items() if row.get("group") in groups)}
    stale = {old for key in raw["relevant"] for old in _replaced_keys(key, rows)} - relevant
    return Question(raw["agent"], raw["ask"], tuple(raw.get("categories", ())), frozenset(relevant), frozenset(stale))


def _replaced_keys(key: str, rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the keys that a memory replaces, directly or not."""
    while (old := rows[key].get("replaces")) is not None:
        yield (key := old)


def _new_memory(user_id: str, row: dict[str, Any]) -> NewMemory:
    values: dict[str, Any] = {"created_at": _as_moment(row["date"]), "importance": row.get("importance", 2)}
    if "thread" in row:
        turn = {"thread_id": row["thread"], "seq": row["seq"], "actor_id": row["actor"], "role": row["role"]}
        return NewMemory(user_id, "activity", row["text"], MemoryType.turn, **turn, **values)
    values |= {"pinned": row.get("pinned", False), "steps_text": row.get("steps")}
    return NewMemory(user_id, row["category"], row["text"], MemoryType(row.get("type", "semantic")), **values)


def _as_moment(value: date | datetime) -> datetime:
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, 12)
    return moment.replace(tzinfo=moment.tzinfo or UTC)
