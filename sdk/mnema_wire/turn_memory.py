"""Turns of turn memory, their artifacts and the active set of a conversation: requests and answers."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, get_args
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from mnema_wire.bases import Answered, Change, Page, Request, Stored, words
from mnema_wire.blocks import format_time
from mnema_wire.checks import check_storable
from mnema_wire.fields import Identifier, Json, Moment
from mnema_wire.turn_limits import (
    MAX_APPLIES_TO,
    MAX_KEY,
    MAX_NAMED,
    MAX_OBJECTIVE,
    MAX_PICKED,
    MAX_QUERIES,
    MAX_QUERY,
    MAX_SELECTED,
    MAX_SIGNALS,
    MAX_TAG,
    MAX_TAGS,
    MAX_TEXT,
    MAX_TITLE,
    MAX_TOPIC,
    MAX_TOPICS,
)

SignalScope = Literal["conversation", "objective", "artifact", "thread"]
LongText = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(check_storable)]
Title = Annotated[str, Field(max_length=MAX_TITLE), AfterValidator(check_storable)]
TurnTime = Annotated[datetime, PlainSerializer(format_time, return_type=str), WithJsonSchema({"type": "string"})]
"""A time of a turn, answered to the millisecond in UTC."""
ArtifactKindName = Literal[
    "artifact:turn.log",
    "artifact:turn.fingerprint.v1",
    "artifact:turn.log.reaction",
    "conversation.active_set.v1",
    "conversation.memory.bucket.v1",
    "conv.start",
]
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


class FingerprintOut(Answered):
    """A stored fingerprint."""

    fingerprint: dict[str, Any]
    tags: list[str]


class StoredTurnOut(Answered):
    """The turn whose log was stored."""

    turn_id: str
    conversation_id: str
    track_id: str | None
    made_at: TurnTime
    created: bool


class DeletedTurnOut(Answered):
    """The number of artifacts that were deleted."""

    deleted: int


class ArtifactOut(Answered):
    """An artifact. `text` is the index as it is stored; `content` is its JSON, or the blob's if it was materialized."""

    id: UUID
    kind: Annotated[str, words(*get_args(ArtifactKindName))]
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


class ArtifactPageOut(Page[ArtifactOut]):
    """A page of artifacts, newest first, with the title of the conversation."""

    conversation_title: str
    next_cursor: str | None


class ActiveSetOut(Stored):
    """The selection of a conversation, and how far its buckets are reconciled."""

    told = frozenset({"unknown_turn_ids", "unknown_bucket_ids"})
    picked_bucket_ids: list[str]
    selected_local_memories_turn_ids: list[str] | None
    last_reconciled_ts: TurnTime | None
    since_last_reconcile: int
    conversation_title: str
    unknown_turn_ids: list[str] = Field(
        default=[], description="ids of the request that name no turn, or are the beginning of several"
    )
    unknown_bucket_ids: list[str] = Field(default=[], description="the same of buckets")


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
        default=None, description=f"bucket ids or unique beginnings of them; the first {MAX_PICKED} count"
    )
    conversation_title: Title = ""
