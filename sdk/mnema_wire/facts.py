"""Facts of a user: statements, questions and their answers."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from mnema_wire.bases import Answered, Change, Page, Request, Stored, is_absent, words
from mnema_wire.fields import NOT_EMPTY, Identifier, Moment, Whole
from mnema_wire.limits import DEFAULT_MODEL

TopicKey = Annotated[
    str,
    Field(pattern="^[a-z0-9_]{1,100}$", description="a topic, such as favorite_colors", examples=["favorite_colors"]),
]
Rank = Annotated[int, Field(ge=-(2**31), lt=2**31, strict=True), Whole]
Value = Annotated[str, Field(max_length=4000, json_schema_extra=NOT_EMPTY)]
Count = Annotated[int, Field(ge=0, le=1_000_000, strict=True), Whole]
ModelName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Model = Annotated[ModelName, Field(description="the name of the model in the label")]


class NewFact(Request):
    """A value to store. `ranked` needs a rank, `single` has none."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"topic_key": "favorite_colors", "rank": 1, "value": "blue"}]}
    )
    topic_key: TopicKey
    kind: Literal["ranked", "single"] = "ranked"
    rank: Rank | None = Field(default=None, description="from 1 to 10, unless configured otherwise")
    value: Value


class Statement(Request):
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
    facts: Annotated[list[NewFact], Field(min_length=1, max_length=100)] | None = None
    source_message_id: Identifier | None = None
    created_at: Moment | None = Field(
        default=None, description="time of the statement; an older one never overwrites a newer one"
    )
    model: Model = DEFAULT_MODEL

    @model_validator(mode="after")
    def _check_content(self) -> "Statement":
        if (self.text is None) == (self.facts is None):
            raise ValueError("give text or facts, and not both")
        return self


class NewValue(Change):
    """The new value of a fact."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"value": "teal"}]})
    value: Value


class Fact(Stored):
    """A stored fact."""

    told = frozenset({"id", "kind", "created_at", "updated_at", "action"})
    model_config = ConfigDict(from_attributes=True)
    id: UUID
    user_id: str
    thread_id: str | None = None
    topic_key: str
    kind: Annotated[str, words("ranked", "single")]
    rank: int | None = Field(default=None, description="from 1; null if the kind is single")
    value: str
    source_message_id: str | None = Field(
        default=None, description="the message that stated it; of a stored turn its id"
    )
    created_at: datetime = Field(description="when it was stated")
    updated_at: datetime


class StatedFact(Fact):
    """A fact after a statement, and what the statement did to it."""

    action: Annotated[str, words("store", "update", "remove")] | None = Field(
        default=None, description="null: said again, or decided by a newer statement"
    )


class FactPage(Page[Fact]):
    """A page of facts. Pass `next_cursor` as `cursor` for the next page."""


class MemoryActions(Answered):
    """The counts of what memory did."""

    S: int = Field(description="facts stored")
    U: int = Field(description="facts whose value changed")
    R: int = Field(description="topics retrieved")
    F: bool = Field(description="a part of the memory failed")


class StoredFacts(Answered):
    """The facts that a statement named, in its order, and what was done."""

    facts: list[StatedFact]
    memory_actions: MemoryActions
    model_label: str = Field(examples=["Model: Memory-S(3) + GPT-5"])
    revision: int | None = Field(default=None, exclude_if=is_absent, description="new revision of the thread")


class ActionsSoFar(Request):
    """The counts of the same response so far. The answer's counts are added to them."""

    S: Count = 0
    U: Count = 0
    R: Count = 0
    F: Annotated[bool, Field(strict=True)] = False


class QuestionMeta(Request):
    """The caller's notes on the response."""

    usedWebSearch: Annotated[bool, Field(strict=True)] = False


class FactQuestion(Request):
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
    meta: QuestionMeta | None = None
    memory_actions: ActionsSoFar | None = None
    as_of: Moment | None = Field(default=None, description="answer from the facts that Mnema knew at this time")
    valid_at: Moment | None = Field(default=None, description="answer from what the user had stated by this time")


class ReplyMeta(Answered):
    """The sources and memory actions of the response."""

    usedWebSearch: bool
    usedMemory: bool
    memory_actions: MemoryActions


class ToldFact(Fact):
    """A stored fact in an answer that leaves out what is null."""

    thread_id: str | None = None
    rank: int | None = None
    source_message_id: str | None = None


class FactAnswer(Answered):
    """The answer to a question about facts, as part of another answer."""

    answered: bool = Field(description="false: the user has not stated what the question asks for")
    text: str
    facts: list[ToldFact]


class FactReply(Answered):
    """The answer to a question. `text` is null if the query is no question about facts: then search for it."""

    answered: bool
    text: str | None
    facts: list[Fact]
    memory_actions: MemoryActions
    model_label: str = Field(examples=["Model: Memory-R(1) + GPT-5"])
    meta: ReplyMeta
