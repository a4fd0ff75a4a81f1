"""Bodies of the routes that write and read turns, artifacts and active sets (`docs/turn-memory.md`)."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from mnema_wire.bases import Change, Request, Stored
from mnema_wire.checks import check_storable
from mnema_wire.fields import Identifier, Json, Moment
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.domain.turn_memory.active_set import MAX_BUCKETS, MAX_SELECTED, ActiveSet
from app.domain.turn_memory.artifacts import ArtifactKind
from app.domain.turn_memory.fingerprint import (
    MAX_OBJECTIVE,
    MAX_QUERIES,
    MAX_QUERY,
    MAX_TITLE,
    MAX_TOPIC,
    MAX_TOPICS,
    Fingerprint,
    format_time,
)
from app.domain.turn_memory.signals import MAX_APPLIES_TO, MAX_KEY, MAX_SIGNALS
from app.usecases.turn_memory.active_set import Selection, UnknownIds
from app.usecases.turn_memory.artifacts import ReadArtifact
from app.usecases.turn_memory.turns import MAX_TAG, MAX_TAGS, NewTurn, StoredTurn

MAX_TEXT: Final = 100_000
MAX_NAMED: Final = 100
SignalScope = Literal["conversation", "objective", "artifact", "thread"]
LongText = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(check_storable)]
Title = Annotated[str, Field(max_length=MAX_TITLE), AfterValidator(check_storable)]
_PLACE: Final[dict[str, Any]] = {"user_id": "maya", "track_id": "main"}


class TurnMemoryIn(Request):
    """The user whose conversation it is. `project_id` must be the id or the name of the key's own tenant."""

    user_id: Identifier
    project_id: Identifier | None = Field(default=None, description="the key's own tenant, such as `acme/support`")


class TurnLogIn(TurnMemoryIn, Change):
    """The log of a turn. Missing optional fields keep what is stored."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{**_PLACE, "user_text": "Draw it as a diagram.", "assistant_text": "Here is the diagram."}]
        },
    )
    user_text: LongText
    assistant_text: LongText | None = None
    summary: Annotated[str, Field(max_length=8000), AfterValidator(check_storable)] | None = None
    extra: Json | None = Field(default=None, description="anything else to keep with the turn, at most 16 KiB")
    track_id: Identifier | None = None
    made_at: Moment | None = Field(default=None, description="when the turn was made; by default now")
    conversation_title: Title = ""

    def to_domain(self, turn_id: str) -> NewTurn:
        """Return the turn to store."""
        return NewTurn(turn_id, **self.model_dump(exclude={"user_id", "project_id"}))


class SignalIn(Request):
    """The parts that statements of all kinds have. Each kind has severities of its own."""

    key: Annotated[str, Field(min_length=1, max_length=MAX_KEY), AfterValidator(check_storable)]
    value: Any = None
    scope: SignalScope = "conversation"
    applies_to: Annotated[str, Field(max_length=MAX_APPLIES_TO), AfterValidator(check_storable)] = ""


class AssertionIn(SignalIn):
    """Something that changes how an agent acts."""

    severity: Literal["must", "prefer", "allow"] = "prefer"


class ExceptionIn(SignalIn):
    """Something that an agent avoids."""

    severity: Literal["avoid", "do_not"] = "avoid"


class FactSignalIn(SignalIn):
    """Something that describes the world."""

    severity: Literal["high", "medium", "low"] = "medium"


class AssistantSignalIn(SignalIn):
    """Something that the assistant mentioned or promoted."""

    severity: Literal["mention", "recommend", "strong_promote"] = "mention"


class FingerprintIn(TurnMemoryIn, Change):
    """The fingerprint of a turn. It replaces the one before."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    **_PLACE,
                    "objective": "fix the diagram",
                    "topics": ["mermaid"],
                    "assertions": [{"key": "format", "value": "mermaid", "severity": "must", "scope": "objective"}],
                }
            ]
        },
    )
    objective: Annotated[str, Field(max_length=MAX_OBJECTIVE), AfterValidator(check_storable)] = ""
    topics: Annotated[
        list[Annotated[str, Field(max_length=MAX_TOPIC), AfterValidator(check_storable)]], Field(max_length=MAX_TOPICS)
    ] = Field(default=[])
    assertions: Annotated[list[AssertionIn], Field(max_length=MAX_SIGNALS)] = Field(default=[])
    exceptions: Annotated[list[ExceptionIn], Field(max_length=MAX_SIGNALS)] = Field(default=[])
    facts: Annotated[list[FactSignalIn], Field(max_length=MAX_SIGNALS)] = Field(default=[])
    assistant_signals: Annotated[list[AssistantSignalIn], Field(max_length=MAX_SIGNALS)] = Field(default=[])
    ctx_retrieval_queries: Annotated[
        list[Annotated[str, Field(max_length=MAX_QUERY), AfterValidator(check_storable)]], Field(max_length=MAX_QUERIES)
    ] = Field(default=[])
    conversation_title: Title = ""
    track_id: Identifier | None = None
    made_at: Moment | None = Field(default=None, description="by default now, or the time of the one before")
    extra_tags: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=MAX_TAG, pattern="^[^_]"), AfterValidator(check_storable)]],
        Field(max_length=MAX_TAGS),
    ] = Field(default=[])

    def to_raw(self) -> dict[str, Any]:
        """Return the parts of the fingerprint itself."""
        return self.model_dump(exclude={"user_id", "project_id", "track_id", "made_at", "extra_tags"})


class FingerprintOut(BaseModel):
    """A stored fingerprint."""

    fingerprint: dict[str, Any]
    tags: list[str]

    @classmethod
    def from_fingerprint(cls, fingerprint: Fingerprint, extra_tags: list[str]) -> "FingerprintOut":
        """Return the body for a stored fingerprint."""
        tags = list(dict.fromkeys((*fingerprint.tags(), *extra_tags)))
        return cls(fingerprint=fingerprint.as_json(), tags=tags)


class StoredTurnOut(BaseModel):
    """The turn whose log was stored."""

    turn_id: str
    conversation_id: str
    track_id: str | None
    made_at: str
    created: bool

    @classmethod
    def from_turn(cls, stored: StoredTurn, conversation_id: str) -> "StoredTurnOut":
        """Return the body for a stored turn."""
        state = stored.state
        made_at = state.log.made_at if state.log else state.now
        return cls(
            turn_id=state.turn_id,
            conversation_id=conversation_id,
            track_id=state.track_id,
            made_at=format_time(made_at),
            created=stored.created,
        )


class DeletedTurnOut(BaseModel):
    """The number of artifacts that were deleted."""

    deleted: int


class ArtifactOut(BaseModel):
    """An artifact. `text` is the index as it is stored; `content` is its JSON, or the blob's if it was materialized."""

    id: UUID
    kind: ArtifactKind
    turn_id: str | None
    track_id: str | None
    tags: list[str]
    text: str
    content: Any
    hosted_uri: str | None
    version: int
    made_at: datetime
    created_at: datetime
    updated_at: datetime

    @classmethod
    def from_artifact(cls, read: ReadArtifact) -> "ArtifactOut":
        """Return the body for an artifact."""
        one = read.artifact
        names = set(cls.model_fields) - {"content", "tags"}
        return cls(**{name: getattr(one, name) for name in names}, tags=list(one.tags), content=read.content)


class ArtifactPageOut(BaseModel):
    """A page of artifacts, newest first, with the title of the conversation."""

    conversation_title: str
    items: list[ArtifactOut]
    next_cursor: str | None


class ActiveSetOut(Stored):
    """The selection of a conversation, and how far its buckets are reconciled."""

    told = frozenset({"unknown_turn_ids", "unknown_bucket_ids"})
    picked_bucket_ids: list[str]
    selected_local_memories_turn_ids: list[str] | None
    last_reconciled_ts: str | None
    since_last_reconcile: int
    conversation_title: str
    unknown_turn_ids: list[str] = Field(
        default=[], description="ids of the request that name no turn, or are the beginning of several"
    )
    unknown_bucket_ids: list[str] = Field(default=[], description="the same of buckets")

    @classmethod
    def from_active_set(cls, active: ActiveSet, unknown: UnknownIds | None = None) -> "ActiveSetOut":
        """Return the body for an active set."""
        turns, buckets = unknown or ((), ())
        return cls(**active.as_json(), unknown_turn_ids=list(turns), unknown_bucket_ids=list(buckets))


class ActiveSetIn(TurnMemoryIn, Change):
    """A selection. Missing fields keep what is stored; an empty list selects nothing."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"user_id": "maya", "selected_local_memories_turn_ids": ["turn_12"]}]},
    )
    selected_local_memories_turn_ids: Annotated[list[Identifier], Field(max_length=MAX_NAMED)] | None = Field(
        default=None, description=f"turn ids or unique beginnings of them; the first {MAX_SELECTED} count"
    )
    picked_bucket_ids: Annotated[list[Identifier], Field(max_length=MAX_NAMED)] | None = Field(
        default=None, description=f"bucket ids or unique beginnings of them; the first {MAX_BUCKETS} count"
    )
    conversation_title: Title = ""

    def to_domain(self) -> Selection:
        """Return the selection."""
        turns = self.selected_local_memories_turn_ids
        buckets = self.picked_bucket_ids
        return Selection(
            None if turns is None else tuple(turns),
            None if buckets is None else tuple(buckets),
            self.conversation_title,
        )
