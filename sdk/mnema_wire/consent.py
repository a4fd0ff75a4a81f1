"""The consented context of a user: proposals, questions and known values."""

from datetime import datetime
from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field

from mnema_wire.bases import Answered, Page, Request, Stored, words
from mnema_wire.checks import check_storable
from mnema_wire.fields import NOT_EMPTY, Identifier
from mnema_wire.limits import MAX_CONSENT_QUESTION

ProposalState = Literal["pending", "approved", "rejected", "expired", "applied"]
FieldName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern="^[a-z_]+$",
        description="sensitive: preferred_name, pronouns, city, language; benign: tone, goals_add; or configured ones",
    ),
]
ContextText = Annotated[str, AfterValidator(check_storable)]


class NewProposal(Request):
    """A proposed value of a user."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"field": "city", "value": "Lisbon", "thread_id": "launch"}]}
    )
    field: FieldName
    value: Annotated[
        ContextText, Field(max_length=2000, description="at most 200 characters", json_schema_extra=NOT_EMPTY)
    ]
    evidence: UUID | None = Field(
        default=None, description="the memory that states the value: a turn of the user, a fact, an episode, an insight"
    )
    thread_id: Identifier | None = None
    agent_id: Identifier | None = Field(default=None, description="the agent that proposes the value")


class NewQuestion(Request):
    """A question to the user about a proposal."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"thread_id": "launch", "question": "Shall I remember that you live in Lisbon?"}]
        },
    )
    thread_id: Identifier
    question: Annotated[
        ContextText,
        Field(
            max_length=4 * MAX_CONSENT_QUESTION,
            description="at most 500 characters; must contain the proposed value and end the thread's newest turn",
            json_schema_extra=NOT_EMPTY,
        ),
    ]
    turn_id: UUID | None = Field(
        default=None, description="the assistant's turn that asks; absent: the newest turn of the thread"
    )


class Withdrawal(Request):
    """A known value to remove."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"field": "city"}]})
    field: FieldName
    value: Annotated[ContextText, Field(max_length=2000)] | None = Field(
        default=None, description="which value, if the field has several; absent: all of them"
    )


class Withdrawn(Answered):
    """The result of a withdrawal."""

    withdrawn: int = Field(description="number of values that were removed")


class ProposalSignal(Answered):
    """A memory that supports a value.

    Turns and facts count if their text states the value. Those with the same `root` count as one. An episode does not
    count. An insight counts by its confidence alone.
    """

    model_config = ConfigDict(from_attributes=True)
    memory_id: UUID
    root: str = Field(description="the turn that the memory was drawn from; the memory itself if it names none")
    kind: str = Field(description="type of the memory")
    confidence: float | None = Field(description="only for an insight that Mnema's own job drew")
    actor: str
    at: datetime
    says: bool = Field(description="its text states the value; a signal with false does not count")


class OpenQuestion(Answered):
    """An open question: the user has not answered it yet."""

    model_config = ConfigDict(from_attributes=True)
    thread_id: str
    question: str
    asked_at: datetime
    turn_id: UUID = Field(description="the assistant's turn that asks")


class Proposal(Stored):
    """A proposal and its outcome."""

    told = frozenset({"id", "state", "created_at", "expires_at", "decided_at", "way", "action"})
    model_config = ConfigDict(from_attributes=True)
    id: UUID
    user_id: str
    field: str
    value: str
    sensitive: bool = Field(description="only the user's own decision can apply it")
    state: Annotated[str, words(*get_args(ProposalState))] = Field(
        description="approved, rejected: the user decided; applied: signals agreed"
    )
    signals: list[ProposalSignal]
    actor: str = Field(description="name of the key, agent or job that proposed it")
    thread_id: str | None
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    way: Annotated[str, words("route", "chat", "signals", "insight", "expiry")] | None = Field(
        description="how it was decided"
    )
    question: OpenQuestion | None


class Proposed(Proposal):
    """A proposal, and what the request did."""

    action: Annotated[str, words("created", "joined", "unchanged", "rejected")] = Field(
        description="joined: the same value already waits; unchanged: it is known; rejected: it was rejected recently"
    )


class ProposalPage(Page[Proposal]):
    """A page of proposals, newest first. Pass `next_cursor` as `cursor` for the next page."""


class KnownValue(Answered):
    """A known value, and the proposal that it comes from."""

    model_config = ConfigDict(from_attributes=True)
    field: str = Field(description="the field of the proposal, such as goals_add; withdraw the value by this name")
    value: str
    patch_id: UUID
    updated_at: datetime


class Context(Answered):
    """The known values of a user. A field with several values appears once for each value."""

    user_id: str
    values: list[KnownValue]
    profile: str = Field(
        description="one line for a prompt", examples=["Preferred name: Ana; city: Lisbon; tone: warm"]
    )
