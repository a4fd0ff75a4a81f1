"""Memories, turns and the receipt of an erasure."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from mnema_wire.bases import Answered, Change, Page, Request, Stored, is_absent, words
from mnema_wire.facts import MemoryActions
from mnema_wire.fields import (
    NOT_EMPTY,
    Expiry,
    Identifier,
    Importance,
    Json,
    Language,
    Moment,
    OpenMoment,
    OriginWord,
    Quote,
    Sequence,
    StateWord,
    Tags,
    Text,
    TypeName,
    TypeWord,
)

MAX_FORGOTTEN: Final = 20
"""The number of memories that one request may forget."""


class Source(Request):
    """The source of a memory: a turn and a quote from it."""

    turn_id: Identifier
    quote: Quote | None = None


class NewMemory(Request):
    """A memory to write."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "user_id": "maya",
                    "category": "tasks",
                    "text": "Maya deploys the planner service to staging every Thursday.",
                    "thread_id": "launch",
                    "agent_id": "planner",
                    "importance": 3,
                    "tags": ["deployment"],
                }
            ]
        },
    )
    user_id: Identifier
    category: Identifier | None = Field(default=None, description="absent: the default category of the type")
    text: Text
    type: TypeName = "semantic"
    thread_id: Identifier | None = None
    seq: Sequence | None = Field(default=None, description="position in the thread")
    agent_id: Identifier | None = None
    run_id: Identifier | None = None
    actor_id: Identifier | None = None
    role: Identifier | None = None
    steps_text: Text | None = Field(default=None, description="numbered imperative steps; only with type procedural")
    importance: Importance | None = None
    pinned: bool = Field(default=False, strict=True)
    tags: Tags = Field(default_factory=list)
    source: Source | None = None
    metadata: Json = Field(default_factory=dict)
    created_at: Moment | None = Field(default=None, description="for imports; never in the future")
    expires_at: Moment | None = Field(default=None, description="no answer contains the memory from then on")
    valid_from: Moment | None = Field(default=None, description="it is so in the world from then on")
    valid_to: Moment | None = Field(default=None, description="it is so in the world until then; later than valid_from")
    language: Language | None = Field(default=None, description="the language of the text; told from it if absent")


class Changes(Change):
    """The fields to change. Absent fields stay as they are; only the moments and the language take `null`."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"text": "Maya ships v1 by September.", "importance": 4}]}
    )
    text: Text = ""
    steps_text: Text = Field(default="", description="numbered imperative steps; only with type procedural")
    category: Identifier = "-"
    importance: Importance = 1
    pinned: bool = Field(default=False, strict=True)
    tags: Tags = Field(default_factory=list)
    metadata: Json = Field(default_factory=dict)
    expires_at: Expiry = Field(default=None, description="`never` takes it away")
    valid_from: OpenMoment = Field(default=None, description="`open` takes it away")
    valid_to: OpenMoment = Field(default=None, description="`open` takes it away")
    language: Language | None = Field(
        default=None, description="null: told anew from the text, as it is from a new text if absent"
    )


class PinChoice(Request):
    """The choice between pin and unpin."""

    pinned: bool = Field(default=True, strict=True)


class Supersession(Request):
    """The later statement that takes a memory's place, and the end of the memory's span."""

    by: UUID | None = Field(default=None, description="an active memory of the same user; null: it is just over")
    valid_to: Moment | None = Field(
        default=None, description="the end of the span; absent: where the later statement begins, or now"
    )


class Correction(Request):
    """The right text of a memory, and what the stored one was."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "user_id": "maya",
                    "id": "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11",
                    "text": "Maya lives in Braga.",
                    "was": "superseded",
                }
            ]
        },
    )
    user_id: Identifier
    id: UUID = Field(description="id of the memory to correct")
    text: Text = Field(description="the right text")
    was: Literal["superseded", "wrong"] = Field(
        description="superseded: it was true until now; wrong: it was never true"
    )
    valid_from: Moment | None = Field(default=None, description="the new text is so from then on")


class Corrected(Answered):
    """The result of a correction."""

    id: UUID = Field(description="the new memory")
    corrected_id: UUID = Field(description="the old memory; a restore makes it active again")
    state: StateWord = Field(description="the state of the old memory")


class Forgetting(Request):
    """The memories to forget: one by its id, or those that a description fits best."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"user_id": "maya", "id": "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11"}]},
    )
    user_id: Identifier
    id: UUID | None = Field(default=None, description="id of the memory to forget")
    description: Annotated[str, Field(min_length=1, max_length=8000)] | None = Field(
        default=None, description="words for what to forget; the best matches are shown"
    )
    confirm: Annotated[list[UUID], Field(min_length=1, max_length=MAX_FORGOTTEN)] | None = Field(
        default=None, description="the ids to forget, of those that the answer without confirm has shown"
    )

    @model_validator(mode="after")
    def _check_choice(self) -> "Forgetting":
        named = [value for value in (self.id, self.description) if value is not None]
        if len(named) > 1 or not (named or self.confirm):
            raise ValueError("name either id or description, or confirm the ids that were shown")
        return self


class Written(Answered):
    """The result of a write.

    *updated*: the text was merged into memory `matched_id`. *unchanged*: memory `matched_id` says this already, and its
    importance, pin and tags would stay, so nothing was stored.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"id": "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11", "action": "created", "related": 2, "revision": 7}
            ]
        }
    )
    id: UUID | None = Field(description="null when skipped")
    action: Annotated[str, words("created", "updated", "merged", "unchanged", "skipped")]
    matched_id: UUID | None = Field(default=None, exclude_if=is_absent)
    similarity: float | None = Field(
        default=None, exclude_if=is_absent, description="highest cosine similarity among the compared memories"
    )
    related: int = Field(default=0, description="number of relations created or updated")
    revision: int | None = Field(default=None, exclude_if=is_absent, description="new revision of the named thread")
    reason: str | None = Field(
        default=None, exclude_if=is_absent, description="why the memory was skipped: below_min_importance or erased"
    )
    state: StateWord | None = Field(
        default=None, exclude_if=is_absent, description="the memory's state if a stored one, stated later, closed it"
    )
    superseded_by: UUID | None = Field(default=None, exclude_if=is_absent, description="the memory that closed it")


class Memory(Stored):
    """A stored memory."""

    told = frozenset(
        {
            "id",
            "type",
            "state",
            "version",
            "superseded_by",
            "purge_at",
            "created_at",
            "updated_at",
            "expires_at",
            "language",
            "valid_from",
            "valid_to",
            "origin",
        }
    )
    model_config = ConfigDict(from_attributes=True)
    id: UUID
    user_id: str
    category: str
    type: TypeWord
    text: str
    steps_text: str | None = None
    importance: int
    pinned: bool
    tags: list[str]
    state: StateWord
    version: int = Field(description="send it as If-Match to change only this version")
    thread_id: str | None = None
    seq: int | None = None
    agent_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    source: dict[str, Any] | None = None
    metadata: dict[str, Any]
    superseded_by: UUID | None = None
    purge_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    language: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    origin: OriginWord | None = Field(
        default=None, description="how the memory came to be; it never changes; null: it is older than this field"
    )
    last_accessed: datetime | None = None
    hits: int = 0


class Forgotten(Answered):
    """The memories that would go, or that went."""

    matches: list[Memory] = Field(description="what would go; confirm with their ids")
    forgotten: list[Memory] = Field(description="what went; each can be restored until its purge_at")


class MemoryPage(Page[Memory]):
    """A page of memories. Pass `next_cursor` as `cursor` for the next page."""


CHANGES: Final = ("ADD", "UPDATE", "DELETE", "MERGE", "LINK", "TTL", "RESTORE", "PURGE")
"""The changes of a memory."""


class HistoryEntry(Answered):
    """One entry of the audit trail."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    memory_id: str
    event: Annotated[str, words(*CHANGES, "CONSENT")]
    old_ref: str | None = None
    new_ref: str | None = None
    actor: str | None = None
    meta: dict[str, Any] = Field(description="the whole row before and after the change")
    ts: datetime


class HistoryPage(Page[HistoryEntry]):
    """A page of history, newest first. Pass `next_cursor` as `cursor` for the next page."""


class MemoryLine(NewMemory):
    """One input line: a memory, and optionally its own idempotency key."""

    idempotency_key: Identifier | None = None


class NewTurn(Request):
    """A turn of a conversation."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "user_id": "maya",
                    "thread_id": "launch",
                    "role": "user",
                    "content": "Can we move the demo to Friday?",
                    "actor_id": "maya",
                    "seq": 12,
                }
            ]
        },
    )
    user_id: Identifier
    thread_id: Identifier
    role: Identifier
    content: Annotated[
        str, Field(description="at most 32,000 characters, unless configured otherwise", json_schema_extra=NOT_EMPTY)
    ]
    actor_id: Identifier | None = Field(default=None, description="the speaker, if the role does not identify one")
    agent_id: Identifier | None = None
    seq: Sequence | None = Field(default=None, description="position in the thread")
    created_at: Moment | None = Field(default=None, description="time of the turn; never in the future")
    metadata: Json = Field(default_factory=dict)
    learn: Literal["model", "rules"] = Field(
        default="model",
        description="what draws facts from the turn: rules and a chat model, or rules alone, which cost no tokens",
    )


class Turn(Answered):
    """A stored turn, and the background jobs that it started."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11",
                    "revision": 7,
                    "jobs": ["01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a12"],
                }
            ]
        }
    )
    id: UUID | None = Field(description="id of the memory; null if it was not stored")
    revision: int | None = Field(default=None, exclude_if=is_absent, description="new revision of the thread")
    jobs: list[UUID] = Field(description="ids for GET /jobs/{id}")
    reason: str | None = Field(default=None, exclude_if=is_absent, description="why the turn was not stored: erased")
    memory_actions: MemoryActions | None = Field(
        default=None, exclude_if=is_absent, description="what the facts of the turn did; absent if it states none"
    )


class Receipt(Answered):
    """A receipt for an erasure."""

    model_config = ConfigDict(from_attributes=True)
    user_id: str
    erased_at: datetime
    counts: dict[str, int] = Field(
        description="rows deleted (memories, relations, events, …), rows blanked (history, changes), and tombstones",
        examples=[{"memories": 41, "history_blanked": 96, "changes_blanked": 12, "tombstones": 57}],
    )
