"""A stored fact, what a statement does to stored facts, and what a question asks of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, TypeAlias
from uuid import UUID

from app.domain.where.tree import FIELDS, Kind, Node


class FactKind(StrEnum):
    """The kinds of facts: an entry of a ranked list, or the single value of a topic."""

    ranked = "ranked"
    single = "single"


@dataclass(frozen=True, slots=True)
class Fact:
    """A value that a user stated about a topic. `rank` counts from 1; it is None if the kind is `single`.

    `created_at` is the time of the statement, `updated_at` the time at which the row changed. `doubted_at`: the time of
    a later message that may take the value back; only the facts of an answer have it.
    """

    id: UUID
    user_id: str
    thread_id: str | None
    topic_key: str
    kind: FactKind
    rank: int | None
    value: str
    category: str
    source_message_id: str | None
    created_at: datetime
    updated_at: datetime
    doubted_at: datetime | None = None


Entry: TypeAlias = tuple[int | None, str]
"""A rank (None: no rank was named) and a value."""


@dataclass(frozen=True, slots=True)
class FactOperation:
    """One thing that a statement does to the facts of a topic.

    - `put`: set each of `entries` at its rank; without a rank as `set` does. A single value that is stored becomes
      rank 1 of the list, unless an entry has that rank.
    - `list`: a whole list, ranks 1 to n. It replaces the topic's single value and the ranks above n.
    - `set`: one value without a rank. It becomes rank 1 if the topic has a ranked list, else the single value.
    - `append`: add the values of `entries` after the highest rank, except those in the list already.
    - `remove`: remove the `ranks`, else the values of `entries`, else all facts of the topic. Other ranks stay.
    - `swap`: exchange the values of two `ranks`.
    - `insert`: put the value of the only entry at its rank (None: after the last one). If the list has the value, its
      old place closes first. The values from that rank on, up to a gap, move down by one.
    - `move`: as `insert`, but only if the list has the value.
    - `replace`: put the second of two entries in the place of the first. If the first is not stored, store the second
      as `set` does if its rank is 1, else not at all.
    - `retell`: change no fact; write the memory of the topic's facts anew.
    - `doubt`: mark the values of `entries`; they answer no question until they are stated again.

    `topic_key` None is the topic that was stated last in the thread.
    """

    op: Literal["put", "list", "set", "append", "remove", "swap", "insert", "move", "replace", "doubt", "retell"]
    topic_key: str | None
    entries: tuple[Entry, ...] = ()
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """One topic that a question asks about.

    - `rank`: the value at `rank`.
    - `list`: all values.
    - `slice`: the values of ranks 1 to `rank`.
    - `first`: the single value, or else rank 1.
    - `last`: the single value, or else the highest rank.

    `topic_key` None is the topic that was stated last in the thread. `language`: that of the question.
    """

    kind: Literal["rank", "list", "slice", "first", "last"]
    topic_key: str | None
    rank: int | None = None
    language: str = "en"


WHERE_FIELDS: Final[Mapping[str, Kind]] = {
    name: FIELDS[name] for name in ("id", "text", "category", "user_id", "thread_id", "created_at", "updated_at")
}
"""The fields of a memory that a fact has too; its text is the value."""


@dataclass(frozen=True, slots=True)
class FactFilter:
    """The facts to read: of a user, and of a thread, a topic and a rank (None: of any).

    `in_place`: with `thread_id` None, only facts without a thread. `where` knows the fields of WHERE_FIELDS.
    """

    user_id: str
    thread_id: str | None = None
    topic_key: str | None = None
    rank: int | None = None
    in_place: bool = False
    where: Node | None = None


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of a topic for people: `one` such as "favorite tea", `many` such as "favorite teas"."""

    one: str
    many: str


@dataclass(frozen=True, slots=True)
class FactStatement:
    """A statement of one message, or one request, about a user's facts.

    `stated_at` is the time of the message: an older statement never overwrites a newer one. `turn` is the memory with
    the message, if it is stored. Values above `max_rank` are not appended. `names` has the topics' names for people.
    """

    user_id: str
    thread_id: str | None
    category: str
    operations: tuple[FactOperation, ...]
    stated_at: datetime
    source_message_id: str | None = None
    turn: UUID | None = None
    max_rank: int = 10
    names: Mapping[str, TopicNames] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact after a statement, and what the statement did to it.

    `action` is None if the statement said the same again, or a newer statement decided the fact.
    """

    action: Literal["store", "update", "remove"] | None
    fact: Fact


@dataclass(frozen=True, slots=True)
class FactOutcome:
    """The facts that a statement named, in its order.

    `revision` is the thread's new revision, None if nothing changed.
    """

    stated: tuple[StatedFact, ...] = ()
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class FactMemory:
    """A memory of facts. Its present text has no vector yet."""

    id: UUID
    version: int
    text: str


def value_key(value: str) -> str:
    """Return the key that spellings of one value share: case and spacing do not matter."""
    return " ".join(value.split()).casefold()
