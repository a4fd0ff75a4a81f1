"""Bodies of /users/{user_id}/context."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.api.schemas.fields import NOT_EMPTY, Identifier, Request, storable_text
from app.domain.consent.patches import MAX_QUESTION, Patch, UserContext
from app.usecases.consent.proposals import Proposal, ProposalResult

FieldName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern="^[a-z_]+$",
        description="sensitive: preferred_name, pronouns, city, language; benign: tone, goals_add; or as configured",
    ),
]
ContextText = Annotated[str, AfterValidator(storable_text)]


class PatchIn(Request):
    """A value that may be known of a user."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"field": "city", "value": "Lisbon", "thread_id": "launch"}]}
    )
    field: FieldName
    value: Annotated[ContextText, Field(max_length=2000, description="200 characters", json_schema_extra=NOT_EMPTY)]
    evidence: UUID | None = Field(
        default=None, description="the memory it was learnt from: a turn of the user's, a fact, an episode, an insight"
    )
    thread_id: Identifier | None = None
    agent_id: Identifier | None = Field(default=None, description="who proposes it")

    def to_domain(self, user_id: str) -> Proposal:
        """As the use-case takes it."""
        return Proposal(user_id=user_id, **self.model_dump())


class AskIn(Request):
    """A question that is put to the user."""

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
            description="500 characters; contains the proposed value, and the thread's newest turn ends with it",
            json_schema_extra=NOT_EMPTY,
        ),
    ]
    turn_id: UUID | None = Field(
        default=None, description="the assistant's turn that asks; without it the newest turn of the thread"
    )


class WithdrawIn(Request):
    """What is not to be known any more."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"field": "city"}]})
    field: FieldName
    value: Annotated[ContextText, Field(max_length=2000)] | None = Field(
        default=None, description="of a field that holds several: this one; all without it"
    )


class WithdrawnOut(BaseModel):
    """How many values are not known any more."""

    withdrawn: int


class SignalOut(BaseModel):
    """A memory that speaks for a value. Turns and facts whose text says the value are counted, those with the same
    `root` (the turn they go back to) as one; an episode is not, an insight speaks by its confidence alone."""

    model_config = ConfigDict(from_attributes=True)
    memory_id: UUID
    root: str
    kind: str = Field(description="type of the memory")
    confidence: float | None = Field(description="of an insight that Mnema's own job drew")
    actor: str
    at: datetime
    says: bool = Field(description="its text states the value; otherwise it is not counted")


class QuestionOut(BaseModel):
    """What the user was asked and has not answered yet."""

    model_config = ConfigDict(from_attributes=True)
    thread_id: str
    question: str
    asked_at: datetime
    turn_id: UUID = Field(description="the assistant's turn that asks")


class PatchOut(BaseModel):
    """A proposal and what became of it."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    user_id: str
    field: str
    value: str
    sensitive: bool = Field(description="it takes the user's own decision")
    state: Literal["pending", "approved", "rejected", "expired", "applied"] = Field(
        description="approved and rejected: somebody decided; applied: signals agreed"
    )
    signals: list[SignalOut]
    actor: str = Field(description="who proposed it")
    thread_id: str | None
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    way: Literal["route", "chat", "signals", "insight", "expiry"] | None = Field(description="how it was decided")
    question: QuestionOut | None

    @classmethod
    def from_patch(cls, patch: Patch) -> "PatchOut":
        """From the domain object."""
        return cls.model_validate(patch)


class ProposedOut(PatchOut):
    """A proposal, and whether it is a new one."""

    action: Literal["created", "joined", "unchanged", "rejected"] = Field(
        description="joined: the same value waits already; unchanged: it is known; rejected: it was, and not long ago"
    )

    @classmethod
    def from_proposed(cls, proposed: ProposalResult) -> "ProposedOut":
        """From the use-case's answer."""
        return cls(**PatchOut.from_patch(proposed.patch).model_dump(), action=proposed.action)


class PatchPageOut(BaseModel):
    """Newest first; pass `next_cursor` as `cursor` for the next."""

    items: list[PatchOut]
    next_cursor: str | None = None


class KnownOut(BaseModel):
    """A value that is known, and the proposal that was decided."""

    model_config = ConfigDict(from_attributes=True)
    field: str = Field(description="as it was proposed, such as goals_add; by this name it is withdrawn")
    value: str
    patch_id: UUID
    updated_at: datetime


class ContextOut(BaseModel):
    """What is known of a user. A field that holds several values is there once for each."""

    user_id: str
    values: list[KnownOut]
    profile: str = Field(
        description="one line for a prompt", examples=["Preferred name: Ana; city: Lisbon; tone: warm"]
    )

    @classmethod
    def from_context(cls, user_id: str, context: UserContext) -> "ContextOut":
        """From the domain object."""
        values = [KnownOut.model_validate(known) for known in context.values]
        return cls(user_id=user_id, values=values, profile=context.profile)
