"""Bodies of mem0's API, as far as Mnema answers it (`docs/mem0.md`)."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from mnema_wire.bases import Change, Request, Stored
from mnema_wire.fields import NOT_EMPTY, Day, Identifier, Json, Moment, TypeName, Whole
from mnema_wire.recall import Share
from pydantic import BaseModel, ConfigDict, Field

from app.api.mem0.filters import read_filters
from app.api.mem0.identities import NAMES, EntityType, Identities, identities_of
from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.memory.memory import Memory

LAST_SECOND: Final = 253_402_041_600
"""9999-12-30, the last Unix time that Mnema takes."""
_USER: Final[dict[str, Any]] = {"user_id": "alex"}
_IGNORED: Final = "taken for mem0's clients, without effect"
Name = Annotated[Identifier, Field(max_length=190)]
"""A name that still fits into an identifier behind `agent:`, `run:` or `app:`."""
Flag = Annotated[bool, Field(strict=True)]


LastDay = Annotated[
    Day | None, Field(description="the last day, in UTC, on which answers contain the memory; null: no end")
]


def expiry_of(last_day: date | None) -> datetime | None:
    """Return the moment at which a memory expires: the end of its last day, at the latest that of 9999-12-30."""
    if last_day is None:
        return None
    return datetime.combine(min(last_day, date.max - timedelta(days=1)) + timedelta(days=1), time(), UTC)


class Mem0IdsIn(Request):
    """The ids of mem0 that say whose a memory is."""

    user_id: Identifier | None = Field(default=None, description="the user")
    agent_id: Name | None = Field(default=None, description="the agent")
    app_id: Name | None = Field(default=None, description="the app: the tag `app:…` of a memory")
    run_id: Name | None = Field(default=None, description="the run: the thread of a memory")

    def identities(self) -> Identities:
        """Return the ids."""
        return Identities(**{name: getattr(self, name) for name in NAMES})


class Mem0ProjectIn(Mem0IdsIn):
    """The ids, and fields that mem0's clients send and that change nothing here."""

    version: Identifier | None = Field(default=None, description=_IGNORED)
    output_format: Identifier | None = Field(default=None, description=_IGNORED)
    async_mode: Flag | None = Field(default=None, description=_IGNORED)
    org_id: Identifier | None = Field(default=None, description=_IGNORED)
    project_id: Identifier | None = Field(default=None, description=_IGNORED)


class Mem0MessageIn(Request):
    """A message of a conversation."""

    role: Identifier
    content: Annotated[str, Field(description="the text", json_schema_extra=NOT_EMPTY)]
    name: Identifier | None = Field(default=None, description="the speaker, if the role does not identify one")


class Mem0AddIn(Mem0ProjectIn):
    """Messages to remember. At least one id is needed, here or in `filters`."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"messages": [{"role": "user", "content": "I am a vegetarian."}], **_USER}]},
    )
    messages: Annotated[list[Mem0MessageIn], Field(min_length=1, max_length=100, description="in order")]
    filters: Mem0IdsIn | None = Field(default=None, description="the ids, instead of beside the messages")
    metadata: Json = Field(default_factory=dict)
    infer: Flag = Field(default=True, description="false: remember each message as it is")
    timestamp: Annotated[int, Field(ge=0, le=LAST_SECOND, strict=True), Whole] | None = Field(
        default=None, description="Unix time of the messages; never in the future"
    )
    expiration_date: LastDay = None
    category: Identifier | None = Field(
        default=None, description="Mnema's own: the category; absent: the category of facts"
    )

    def identities(self) -> Identities:
        """Return the ids of both places. Raise InvalidInput if they disagree."""
        beside = super().identities()
        inner = (self.filters or Mem0IdsIn()).identities()
        values = {}
        for name in NAMES:
            one = getattr(beside, name)
            other = getattr(inner, name)
            if None not in (one, other) and one != other:
                raise InvalidInput(f"{name} and filters.{name} are names of one field and differ; send one of them")
            values[name] = other if one is None else one
        return Identities(**values)

    @property
    def created_at(self) -> datetime | None:
        """The time of the messages, None for now."""
        return None if self.timestamp is None else datetime.fromtimestamp(self.timestamp, UTC)


class _SelectingIn(Mem0ProjectIn):
    """The fields that select memories. They must all match."""

    filters: Json = Field(default_factory=dict, description="conditions; `AND`, `OR` and `NOT` hold lists of them")
    categories: Annotated[list[Identifier], Field(max_length=100)] | None = Field(
        default=None, description="any of these categories; absent or empty: all"
    )
    show_expired: Flag | None = Field(default=None, description=_IGNORED)
    latest_only: Flag | None = Field(default=None, description=_IGNORED)


class Mem0ListIn(_SelectingIn):
    """The memories to list."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"filters": _USER}]})
    start_date: Moment | None = Field(default=None, description="created then or later")
    end_date: Moment | None = Field(default=None, description="created then or earlier")

    def conditions(self) -> Filters:
        """Return the conditions on the selected memories. Raise InvalidInput."""
        limits = {"gte": self.start_date, "lte": self.end_date}
        created = {operator: moment.isoformat() for operator, moment in limits.items() if moment is not None}
        return read_filters(self.filters, self.identities(), self.categories, created_at=created)


class Mem0SearchIn(_SelectingIn):
    """A search among the selected memories."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"query": "What do I eat?", "filters": _USER}]}
    )
    query: Annotated[str, Field(min_length=1, max_length=8000)]
    top_k: Annotated[int, Field(ge=1, le=50, strict=True), Whole] = Field(
        default=10, description="maximum number of results"
    )
    threshold: Share | None = Field(default=None, description="minimum score of a result; absent: no minimum")
    metadata: Json = Field(default_factory=dict, description="keys and values that the metadata has")
    rerank: Flag | None = Field(default=None, description=_IGNORED)
    keyword_search: Flag | None = Field(default=None, description=_IGNORED)

    def conditions(self) -> Filters:
        """Return the conditions on the selected memories. Raise InvalidInput."""
        return read_filters(self.filters, self.identities(), self.categories, metadata=self.metadata)


class Mem0UpdateIn(Change):
    """The fields to change. Absent fields stay as they are."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"text": "I am a vegan."}]})
    text: Annotated[str, Field(description="the new text", json_schema_extra=NOT_EMPTY)] = ""
    metadata: Json = Field(default_factory=dict)
    expiration_date: LastDay = None

    def named_changes(self) -> dict[str, Any]:
        """Return the changes that the body names. Raise InvalidInput if it names none."""
        if not self.model_fields_set:
            raise InvalidInput("name at least one of: text, metadata, expiration_date")
        changes = self.model_dump(include=self.model_fields_set)
        if "expiration_date" in changes:
            changes["expires_at"] = expiry_of(changes.pop("expiration_date"))
        return changes


class Mem0PingOut(BaseModel):
    """The key is valid."""

    status: Literal["ok"] = Field(default="ok", description="always `ok`")
    org_id: UUID = Field(description="id of the tenant, which the key selects")
    project_id: UUID = Field(description="the same as `org_id`; mem0's clients need both")
    user_email: None = Field(default=None, description="always null")


class Mem0MessageOut(BaseModel):
    """The result of a deletion, in words."""

    message: str = Field(description="what was done")


class Mem0ResultOut(Stored):
    """The memory that a message became."""

    told = frozenset({"id", "event"})
    id: UUID | None = Field(description="id of the memory; null if the text was not stored")
    memory: str = Field(description="the text of the memory")
    event: Literal["ADD", "UPDATE", "NONE"] = Field(
        description="ADD: a new memory; UPDATE: merged into this memory; NONE: known already, or refused"
    )


class Mem0AddedOut(BaseModel):
    """The memories that the messages became."""

    results: list[Mem0ResultOut] = Field(description="one entry for each message that is remembered")


class Mem0MemoryOut(Stored):
    """A memory as mem0's clients know it."""

    told = frozenset({"id", "type", "created_at", "updated_at", "expiration_date"})
    id: UUID
    memory: str = Field(description="the text of the memory")
    user_id: str | None = Field(description="the user; null: the memory has none")
    agent_id: str | None = Field(description="the agent")
    app_id: str | None = Field(description="the app")
    run_id: str | None = Field(description="the run: Mnema's thread")
    actor_id: str | None
    role: str | None
    metadata: dict[str, Any]
    categories: list[str] = Field(description="Mnema's category, alone")
    type: TypeName
    created_at: datetime
    updated_at: datetime
    expiration_date: LastDay

    @classmethod
    def from_memory(cls, memory: Memory, **more: Any) -> Self:
        """Return the body for a stored memory; `more` are fields of a subclass."""
        ids = identities_of(memory)
        ends_at = memory.expires_at
        return cls(
            id=memory.id,
            memory=memory.text,
            **{name: getattr(ids, name) for name in NAMES},
            actor_id=memory.actor_id,
            role=memory.role,
            metadata=dict(memory.metadata),
            categories=[memory.category],
            type=memory.type.value,
            created_at=memory.created_at,
            updated_at=memory.updated_at,
            expiration_date=ends_at and (ends_at.astimezone(UTC) - timedelta(microseconds=1)).date(),
            **more,
        )


class Mem0FoundOut(Mem0MemoryOut):
    """A memory that a search found."""

    score: float = Field(description="cosine similarity to the query, from 0 to 1; the order is that of the ranking")


class Mem0UpdatedOut(Mem0MemoryOut):
    """A changed memory."""

    text: str = Field(description="the same as `memory`")


class Mem0SearchOut(BaseModel):
    """The memories that a search found, best first."""

    results: list[Mem0FoundOut] = Field(description="the memories, best first")


class _PageOut(BaseModel):
    """The place of a page in a list."""

    count: int = Field(description="entries of the whole list, which has at most 10,000 of each type")
    next: str | None = Field(description="path of the next page; null: this is the last one")
    previous: str | None = Field(description="path of the page before; null: this is the first one")


class Mem0PageOut(_PageOut):
    """A page of memories, newest first."""

    results: list[Mem0MemoryOut] = Field(description="the memories of the page")


class Mem0EntityOut(BaseModel):
    """A user, an agent, an app or a run that has memories."""

    id: str = Field(description="the same as `name`")
    name: str = Field(description="the id that the memories carry")
    type: EntityType = Field(description="what has the name")
    total_memories: int = Field(description="active memories that the key may see")
    created_at: datetime | None = Field(description="when it was first stored; null: not known")
    updated_at: datetime | None = Field(description="its last activity")


class Mem0EntityPageOut(_PageOut):
    """A page of entities: users, then agents, apps and runs, each by name."""

    results: list[Mem0EntityOut] = Field(description="the entities of the page")


class Mem0ChangeOut(BaseModel):
    """A change of a memory's text or metadata."""

    id: UUID
    memory_id: str
    event: Literal["ADD", "UPDATE", "DELETE"] = Field(description="what happened to the memory")
    old_memory: str | None = Field(description="the text before; null: there was none, or it was purged")
    new_memory: str | None = Field(description="the text afterwards; null: there is none, or it was purged")
    user_id: str | None = Field(description="the user of the memory")
    input: list[Mem0MessageIn] = Field(description="always empty: Mnema keeps no messages with a change")
    created_at: datetime = Field(description="when the memory was created")
    updated_at: datetime = Field(description="when this change happened")
