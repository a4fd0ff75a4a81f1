"""Bodies of /facts (`docs/facts.md`)."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from mnema_wire.bases import Change, Request, Stored, is_absent
from mnema_wire.fields import NOT_EMPTY, Identifier, Moment, Whole
from mnema_wire.limits import DEFAULT_MODEL
from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.domain.facts.answers import FactAnswer
from app.domain.facts.fact import Fact, FactKind, FactOutcome, StatedFact
from app.domain.facts.label import MemoryActions
from app.domain.rendering.model_text import ModelText
from app.usecases.facts.store import FactPlace, NewFact

TopicKey = Annotated[
    str,
    Field(pattern="^[a-z0-9_]{1,100}$", description="a topic, such as favorite_colors", examples=["favorite_colors"]),
]
Rank = Annotated[int, Field(ge=-(2**31), lt=2**31, strict=True), Whole]
Value = Annotated[str, Field(max_length=4000, json_schema_extra=NOT_EMPTY)]
Count = Annotated[int, Field(ge=0, le=1_000_000, strict=True), Whole]
ModelName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Model = Annotated[ModelName, Field(description="the name of the model in the label")]


class FactIn(Request):
    """A value to store. `ranked` needs a rank, `single` has none."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"topic_key": "favorite_colors", "rank": 1, "value": "blue"}]}
    )
    topic_key: TopicKey
    kind: Literal["ranked", "single"] = "ranked"
    rank: Rank | None = Field(default=None, description="from 1 to 10, unless configured otherwise")
    value: Value

    def to_domain(self) -> NewFact:
        """Return the domain object."""
        return NewFact(self.topic_key, FactKind(self.kind), self.rank, self.value)


class FactsIn(Request):
    """A user's own message, from which facts are read, or facts to store. Give `text` or `facts`."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"user_id": "maya", "thread_id": "launch", "text": "My favorite colors are blue, green and black."}
            ]
        },
    )
    user_id: Identifier
    thread_id: Identifier | None = None
    text: Annotated[str, Field(min_length=1, max_length=32_000)] | None = None
    facts: Annotated[list[FactIn], Field(min_length=1, max_length=100)] | None = None
    source_message_id: Identifier | None = None
    created_at: Moment | None = Field(
        default=None, description="time of the statement; an older one never overwrites a newer one"
    )
    model: Model = DEFAULT_MODEL

    @model_validator(mode="after")
    def _check_content(self) -> "FactsIn":
        if (self.text is None) == (self.facts is None):
            raise ValueError("give text or facts, and not both")
        return self

    def to_place(self) -> FactPlace:
        """Return the place of the statement."""
        return FactPlace(self.user_id, self.thread_id, self.source_message_id, self.created_at)


class FactPatchIn(Change):
    """The new value of a fact."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"value": "teal"}]})
    value: Value


class FactOut(Stored):
    """A stored fact."""

    told = frozenset({"id", "kind", "created_at", "updated_at", "action"})
    model_config = ConfigDict(from_attributes=True)
    id: UUID
    user_id: str
    thread_id: str | None = None
    topic_key: str
    kind: Literal["ranked", "single"]
    rank: int | None = Field(default=None, description="from 1; null if the kind is single")
    value: str
    source_message_id: str | None = Field(
        default=None, description="the message that stated it; of a stored turn its id"
    )
    created_at: datetime = Field(description="when it was stated")
    updated_at: datetime

    @classmethod
    def from_fact(cls, fact: Fact) -> "FactOut":
        """Return the body for a domain object."""
        return cls.model_validate(fact)


class StatedFactOut(FactOut):
    """A fact after a statement, and what the statement did to it."""

    action: Literal["store", "update", "remove"] | None = Field(
        default=None, description="null: said again, or decided by a newer statement"
    )

    @classmethod
    def from_stated(cls, stated: StatedFact) -> "StatedFactOut":
        """Return the body for a domain object."""
        return cls.model_validate({**FactOut.from_fact(stated.fact).model_dump(), "action": stated.action})


class FactPageOut(BaseModel):
    """A page of facts. Pass `next_cursor` as `cursor` for the next page."""

    items: list[FactOut]
    next_cursor: str | None = None


class MemoryActionsOut(BaseModel):
    """The counts of what memory did."""

    S: int = Field(description="facts stored")
    U: int = Field(description="facts whose value changed")
    R: int = Field(description="topics retrieved")
    F: bool = Field(description="a part of the memory failed")

    @classmethod
    def from_actions(cls, actions: MemoryActions) -> "MemoryActionsOut":
        """Return the body for a domain object."""
        return cls(**actions.as_counts())


class FactsOut(BaseModel):
    """The facts that a statement named, in its order, and what was done."""

    facts: list[StatedFactOut]
    memory_actions: MemoryActionsOut
    model_label: str = Field(examples=["Model: Memory-S(3) + GPT-5"])
    revision: int | None = Field(default=None, exclude_if=is_absent, description="new revision of the thread")

    @classmethod
    def from_outcome(cls, outcome: FactOutcome, model: str) -> "FactsOut":
        """Return the body for a domain object."""
        actions = MemoryActions.from_outcomes([outcome])
        return cls(
            facts=[StatedFactOut.from_stated(stated) for stated in outcome.stated],
            memory_actions=MemoryActionsOut.from_actions(actions),
            model_label=actions.label(model),
            revision=outcome.revision,
        )


class ActionsIn(Request):
    """The counts of the same response so far. The answer's counts are added to them."""

    S: Count = 0
    U: Count = 0
    R: Count = 0
    F: Annotated[bool, Field(strict=True)] = False

    def to_domain(self, retrieved: int = 0) -> MemoryActions:
        """Return the domain object with `retrieved` more topics."""
        return MemoryActions(self.S, self.U, self.R + retrieved, self.F)


class AnswerMetaIn(Request):
    """The caller's notes on the response."""

    usedWebSearch: Annotated[bool, Field(strict=True)] = False


class FactQuestionIn(Request):
    """A question about a user's facts."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"user_id": "maya", "thread_id": "launch", "query": "What's my second favorite color?"}]
        },
    )
    user_id: Identifier
    thread_id: Identifier | None = None
    query: Annotated[str, Field(min_length=1, max_length=8000)]
    model: Model = DEFAULT_MODEL
    meta: AnswerMetaIn | None = None
    memory_actions: ActionsIn | None = None


class AnswerMetaOut(BaseModel):
    """The sources and memory actions of the response."""

    usedWebSearch: bool
    usedMemory: bool
    memory_actions: MemoryActionsOut


class ToldFactOut(FactOut):
    """A stored fact in an answer that leaves out what is null."""

    thread_id: str | None = None
    rank: int | None = None
    source_message_id: str | None = None


class FactAnswerOut(BaseModel):
    """The answer to a question about facts, as part of another answer."""

    answered: bool = Field(description="false: the user has not stated what the question asks for")
    text: str
    facts: list[ToldFactOut]

    @classmethod
    def from_answer(cls, answer: FactAnswer, line: ModelText) -> "FactAnswerOut":
        """Return the body for a domain object. `line` is its text, as a model reads it."""
        facts = list(map(ToldFactOut.model_validate, answer.facts))
        return cls(answered=answer.answered, text=line.text, facts=facts)


class FactAnsweredOut(BaseModel):
    """The answer to a question. `text` is null if the query is no question about facts: then search for it."""

    answered: bool
    text: str | None
    facts: list[FactOut]
    memory_actions: MemoryActionsOut
    model_label: str = Field(examples=["Model: Memory-R(1) + GPT-5"])
    meta: AnswerMetaOut

    @classmethod
    def from_answer(cls, answer: FactAnswer, question: FactQuestionIn) -> "FactAnsweredOut":
        """Return the body for a domain object."""
        actions = (question.memory_actions or ActionsIn()).to_domain(len(answer.topic_keys))
        return cls(
            answered=answer.answered,
            text=answer.text or None,
            facts=list(map(FactOut.from_fact, answer.facts)),
            memory_actions=MemoryActionsOut.from_actions(actions),
            **label_and_meta(actions, question),
        )


def label_and_meta(actions: MemoryActions, question: FactQuestionIn) -> dict[str, Any]:
    """Return the fields `model_label` and `meta` of a response with these actions."""
    used_web = question.meta is not None and question.meta.usedWebSearch
    meta = AnswerMetaOut(
        usedWebSearch=used_web,
        usedMemory=actions.retrieved > 0,
        memory_actions=MemoryActionsOut.from_actions(actions),
    )
    return {"model_label": actions.label(question.model, used_web=used_web), "meta": meta}
