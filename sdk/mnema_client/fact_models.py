"""Responses about facts: ranked lists and single values that users stated."""

from datetime import datetime
from uuid import UUID

from mnema_client.answered import Answered, Stored


class Fact(Stored):
    """A value that a user stated about a topic.

    `kind`: ranked (an entry of a list, `rank` from 1) or single (`rank` None). `created_at`: when it was stated.
    """

    id: UUID
    user_id: str
    thread_id: str | None = None
    topic_key: str
    kind: str
    rank: int | None = None
    value: str
    source_message_id: str | None = None
    created_at: datetime
    updated_at: datetime


class StatedFact(Fact):
    """A fact after a statement. `action`: store, update, remove, or None if the statement changed nothing."""

    action: str | None = None


class MemoryActions(Answered):
    """The counts of what memory did: facts stored (S), values changed (U), topics retrieved (R); F: a part failed."""

    S: int = 0
    U: int = 0
    R: int = 0
    F: bool = False


class StoredFacts(Answered):
    """The facts that a statement named, in its order. `revision`: the thread's."""

    facts: list[StatedFact]
    memory_actions: MemoryActions
    model_label: str
    revision: int | None = None


class FactAnswer(Answered):
    """The answer from facts, as part of another answer. Not `answered`: the user has not stated what is asked for."""

    answered: bool
    text: str
    facts: list[Fact]


class ReplyMeta(Answered):
    """The sources and memory actions of a reply."""

    usedWebSearch: bool
    usedMemory: bool
    memory_actions: MemoryActions


class FactReply(Answered):
    """The reply to a question. `text` is None if the query is no question about facts: then `query` the memory."""

    answered: bool
    text: str | None = None
    facts: list[Fact]
    memory_actions: MemoryActions
    model_label: str
    meta: ReplyMeta
