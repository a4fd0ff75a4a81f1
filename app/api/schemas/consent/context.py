"""Bodies of /users/{user_id}/context."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from mnema_wire.bases import Request, Stored
from mnema_wire.checks import check_storable
from mnema_wire.fields import NOT_EMPTY, Identifier
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.domain.consent.patches import MAX_QUESTION, Patch, UserContext
from app.usecases.consent.proposals import Proposal, ProposalResult

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


class PatchIn(Request):
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

    def to_domain(self, user_id: str) -> Proposal:
        """Return the proposal that the use-case takes."""
        return Proposal(user_id=user_id, **self.model_dump())


class AskIn(Request):
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
            max_length=4 * MAX_QUESTION,
            description="at most 500 characters; must contain the proposed value and end the thread's newest turn",
            json_schema_extra=NOT_EMPTY,
        ),
    ]
    turn_id: UUID | None = Field(
        default=None, description="the assistant's turn that asks; absent: the newest turn of the thread"
    )


class WithdrawIn(Request):
    """A known value to remove."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"field": "city"}]})
    field: FieldName
    value: Annotated[ContextText, Field(max_length=2000)] | None = Field(
        default=None, description="which value, if the field has several; absent: all of them"
    )


class WithdrawnOut(BaseModel):
    """The result of a withdrawal."""

    withdrawn: int = Field(description="number of values that were removed")


class SignalOut(BaseModel):
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


class QuestionOut(BaseModel):
    """An open question: the user has not answered it yet."""

    model_config = ConfigDict(from_attributes=True)
    thread_id: str
    question: str
    asked_at: datetime
    turn_id: UUID = Field(description="the assistant's turn that asks")


class PatchOut(Stored):
    """A proposal and its outcome."""

    told = frozenset({"id", "state", "created_at", "expires_at", "decided_at", "way", "action"})
    model_config = ConfigDict(from_attributes=True)
    id: UUID
    user_id: str
    field: str
    value: str
    sensitive: bool = Field(description="only the user's own decision can apply it")
    state: Literal["pending", "approved", "rejected", "expired", "applied"] = Field(
        description="approved, rejected: the user decided; applied: signals agreed"
    )
    signals: list[SignalOut]
    actor: str = Field(description="name of the key, agent or job that proposed it")
    thread_id: str | None
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    way: Literal["route", "chat", "signals", "insight", "expiry"] | None = Field(description="how it was decided")
    question: QuestionOut | None

    @classmethod
    def from_patch(cls, patch: Patch) -> "PatchOut":
        """Return the body for a domain object."""
        return cls.model_validate(patch)


class ProposedOut(PatchOut):
    """A proposal, and what the request did."""

    action: Literal["created", "joined", "unchanged", "rejected"] = Field(
        description="joined: the same value already waits; unchanged: it is known; rejected: it was rejected recently"
    )

    @classmethod
    def from_proposed(cls, proposed: ProposalResult) -> "ProposedOut":
        """Return the body for the use-case's result."""
        return cls(**PatchOut.from_patch(proposed.patch).model_dump(), action=proposed.action)


class PatchPageOut(BaseModel):
    """A page of proposals, newest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[PatchOut]
    next_cursor: str | None = None


class KnownOut(BaseModel):
    """A known value, and the proposal that it comes from."""

    model_config = ConfigDict(from_attributes=True)
    field: str = Field(description="the field of the proposal, such as goals_add; withdraw the value by this name")
    value: str
    patch_id: UUID
    updated_at: datetime


class ContextOut(BaseModel):
    """The known values of a user. A field with several values appears once for each value."""

    user_id: str
    values: list[KnownOut]
    profile: str = Field(
        description="one line for a prompt", examples=["Preferred name: Ana; city: Lisbon; tone: warm"]
    )

    @classmethod
    def from_context(cls, user_id: str, context: UserContext) -> "ContextOut":
        """Return the body for a domain object."""
        values = [KnownOut.model_validate(known) for known in context.values]
        return cls(user_id=user_id, values=values, profile=context.profile.text)
