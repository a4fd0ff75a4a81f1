"""Recall: queries, the search with citations, the delta and the replay of a thread."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, Page, Request, is_absent, words
from mnema_wire.facts import FactAnswer
from mnema_wire.fields import (
    Identifier,
    Importance,
    Language,
    Moment,
    OriginWord,
    Sequence,
    TypeWord,
    Where,
    Whole,
    Zone,
)

QUERY_EXAMPLE: Final[dict[str, Any]] = {
    "agent": "planner",
    "query": "deployment plan context",
    "categories": ["tasks", "projects"],
    "filters": {"user_id": "maya"},
    "top_k": 3,
    "return": "bullets",
    "budget_tokens": 512,
}


Neighbours = Annotated[int, Field(ge=0, le=3, strict=True), Whole]
Share = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]


class RowFilters(Request):
    """The filters that queries and batches share."""

    user_id: Identifier | None = None
    agent_id: Identifier | None = None
    run_id: Identifier | None = None
    actor_id: Identifier | None = None
    role: Identifier | None = None
    language: Language | None = Field(default=None, description="a code of ISO 639, such as de; und: undetermined")
    pinned: Annotated[bool, Field(strict=True)] | None = None
    importance_min: Importance | None = None
    importance_max: Importance | None = None
    updated_after: Moment | None = Field(default=None, description="inclusive; a date without a time is midnight UTC")
    updated_before: Moment | None = Field(default=None, description="exclusive; a date without a time is midnight UTC")
    expires_after: Moment | None = Field(default=None, description="inclusive; only memories with an `expires_at`")
    expires_before: Moment | None = Field(default=None, description="exclusive; only memories with an `expires_at`")


class Filters(RowFilters):
    """Filters, combined with AND. Null or absent: no filter. `pinned: false`: only unpinned memories.

    Without `user_id` the query covers the whole tenant.
    """

    category: Identifier | None = None


class AgentQuestion(Request):
    """A question of an agent, with the user among the filters."""

    agent: Identifier | None = Field(
        default=None, description="who asks; absent: the only agent of the key, else the default agent"
    )
    query: Annotated[str, Field(min_length=1, max_length=8000)]
    categories: Annotated[list[Identifier], Field(max_length=100)] | None = Field(
        default=None, description="absent or empty: all categories of the agent except procedural"
    )
    filters: Filters | None = None
    where: Where | None = None
    top_k: Annotated[int, Field(ge=1, le=50, strict=True), Whole] | None = None
    returns: Literal["bullets", "full"] = Field(default="bullets", alias="return")
    budget_tokens: Annotated[int, Field(ge=1, le=8192, strict=True), Whole] | None = Field(
        default=None, description="tokens of header and bullets; with return=full also of tags, source and metadata"
    )
    threshold: Share | None = Field(
        default=None, description="minimum similarity: the share of usual candidates that are less similar"
    )
    min_relevance: Share | None = Field(
        default=None, description="minimum relevance of an item; 0: no minimum; absent: the category's default"
    )
    thread_id: Identifier | None = Field(
        default=None,
        description="thread of the delta header (for the filtered user); also decides near ties; never filters",
    )
    before_seq: Sequence | None = Field(
        default=None, description="leave out the turns of `thread_id` from this place on, such as the question itself"
    )
    exclude_ids: Annotated[list[UUID], Field(max_length=200)] | None = Field(
        default=None, description="memories to leave out, such as those in the prompt already"
    )
    since_rev: Sequence | None = None
    explain: bool = Field(default=False, strict=True)
    neighbours: Neighbours | None = Field(
        default=None, description="chunks before and after each chunk that are answered with it, as far as they fit"
    )
    dates: bool | None = Field(
        default=None,
        strict=True,
        description="whether a bullet ends with the day of its memory's last change; by default true",
    )
    profile: Identifier | None = Field(default=None, description="ranking profile of config/policies.yaml")
    as_of: Moment | None = Field(
        default=None, description="answer from what Mnema knew at this time; needs a user, and never lies in the future"
    )
    valid_at: Moment | None = Field(
        default=None, description="answer what was so at this time, superseded memories too; needs a user"
    )
    timezone: Zone = Field(
        default="UTC", description='IANA time zone of a time that the question names, such as "last week"'
    )


class Question(AgentQuestion):
    """The body of memory.query."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [QUERY_EXAMPLE]})
    user_id: Identifier | None = Field(default=None, description="another place of `filters.user_id`")


class Score(Answered):
    """A ranking score; its parts add up to the total."""

    total: float
    parts: dict[str, float]
    similarity: float | None = Field(default=None, description="cosine similarity to the query")


class Instruction(Answered):
    """The reason why a standing instruction comes with an answer."""

    condition: str | None = Field(
        default=None, description="the part of its text that says when it applies; null: it applies to every answer"
    )
    nearness: float | None = Field(
        default=None,
        description="how near the question is to an instruction with a condition, in usual deviations of the model",
    )


class Item(Answered):
    """A memory of the answer.

    The fields after `mark` are present with return=full, `score` and `origin` with return=full or explain. A chunk
    always has its `source`: `path`, `start` and `end` in a file, or `turn_id`, `start` and `end` in a turn.
    """

    id: UUID
    category: str
    text: str
    mark: str | None = Field(
        default=None, description="`M1`, `M2` and so on; only on chunks, whose line starts with it"
    )
    type: TypeWord | None = None
    importance: int | None = None
    pinned: bool | None = None
    tags: list[str] | None = None
    user_id: str | None = None
    thread_id: str | None = None
    seq: int | None = None
    agent_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    steps_text: str | None = None
    source: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    language: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    origin: OriginWord | None = Field(
        default=None, description="how the memory came to be; it never changes; null: it is older than this field"
    )
    score: Score | None = None
    relevance: float | None = Field(
        default=None, description="probability from 0 to 1 that the item helps to answer; absent if it is not known"
    )
    also: list[UUID] | None = Field(default=None, description="memories that say the same and are not listed")
    superseded_by: UUID | None = Field(
        default=None, description="a later statement about the same attribute; only with explain"
    )
    instruction: Instruction | None = Field(
        default=None, description="why it comes with the answer; only on standing instructions, and only with explain"
    )
    strength: float | None = Field(default=None, description="strength of the relation; only on related items")


DROP_REASONS: Final = (
    "threshold",
    "score_threshold",
    "rag_length",
    "rank",
    "diversity",
    "relevance",
    "question",
    "duplicate",
    "budget",
)


class Dropped(Answered):
    """A candidate that is not among the items. It may be among the related items."""

    id: UUID
    category: str
    reason: Annotated[str, words(*DROP_REASONS)]
    score: Score | None = Field(default=None, description="absent if the candidate was not ranked")


class Hidden(Answered):
    """Memories that match better than each item of the answer, and the reason why they are not in it."""

    reason: Annotated[str, words("category_not_allowed", "relevance")] = Field(
        description="category_not_allowed: the agent may not see the categories, and another agent may; only for keys "
        "bound to no agent. relevance: the matches are below the least relevance"
    )
    categories: list[str]
    count: int = Field(description="how many of the best candidates")
    best_relevance: float = Field(description="the relevance of the best of them")
    least_relevance: float = Field(description="the least relevance of an item like the best of them")
    message: str = Field(description="the reason as a sentence")


class Delta(Answered):
    """The revisions that a delta covers."""

    since_rev: int
    rev: int = Field(description="newest revision of a change that the agent may see; the next `since_rev`")
    more: int = Field(description="number of changed memories that the header does not list")
    truncated: bool = Field(description="changes since `since_rev` are no longer stored")


class Answer(Answered):
    """The answer of memory.query. Put `header` before the items; it is empty if nothing changed."""

    items: list[Item]
    related: list[Item]
    header: str
    delta: Delta | None = None
    tokens: int
    took_ms: float
    fact_answer: FactAnswer | None = Field(
        default=None, description="the answer from stored facts, if the query asks for facts of the filtered user"
    )
    answerable: float | None = Field(
        default=None, description="the probability that any candidate helps to answer; near 0, no ranked memory does"
    )
    degraded: str | None = Field(
        default=None, description="a part that was not available, such as embedder_unavailable"
    )
    dropped: list[Dropped] | None = Field(default=None, description="only with explain")
    hidden: list[Hidden] | None = Field(default=None, description="better matches than the items; only with explain")
    query_id: UUID | None = Field(default=None, description="id of the answer's receipt")

    def prompt(self) -> str:
        """Return header, answer from facts, items and related items as text for a prompt, one line each."""
        told = [self.fact_answer.text] if self.fact_answer is not None and self.fact_answer.answered else []
        lines = [*told, *(item.text for item in (*self.items, *self.related))]
        return "\n".join([self.header, *lines] if self.header else lines)

    def __str__(self) -> str:
        return self.prompt()


class ThreadDelta(Delta):
    """A thread's delta, with the text of its header."""

    header: str


class Count(Answered):
    """The number of events in one group, with the values of the group's columns."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [{"op": "create", "node": "hotpath", "count": 12}]}
    )
    count: int

    @property
    def group(self) -> Mapping[str, Any]:
        """The group's columns and values, such as `{"op": "create", "node": "hotpath"}`."""
        return self.model_extra or {}


class Counts(Answered):
    """Event counts by the requested columns."""

    counts: list[Count]


SEARCH_EXAMPLE: Final[dict[str, Any]] = {"user_id": "maya", "query": "which city does Maya live in?", "top_k": 5}
SearchedType = Literal["turn", "memory", "chunk"]
TopK = Annotated[int, Field(ge=1, le=50, strict=True), Whole]


class SearchRequest(Request):
    """The body of a search. `project_id`, `chat_id` and `limit` are other names, for clients that use them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [SEARCH_EXAMPLE]})
    query: Annotated[str, Field(min_length=1, max_length=8000)]
    user_id: Identifier | None = Field(default=None, description="absent: all users of the tenant")
    where: Where | None = None
    thread_id: Identifier | None = Field(default=None, description="decides near ties; never filters")
    top_k: TopK | None = Field(default=None, description="maximum number of results, by default 5")
    types: Annotated[list[SearchedType], Field(max_length=3)] | None = Field(
        default=None, description="absent or empty: all; `memory`: every type but turn, chunk and procedural"
    )
    budget_tokens: Annotated[int, Field(ge=1, le=8192, strict=True), Whole] | None = Field(
        default=None, description="tokens of the lines; absent: no line is left out"
    )
    min_relevance: Share | None = Field(
        default=None, description="minimum relevance of a result; 0: no minimum; absent: the category's default"
    )
    exclude_ids: Annotated[list[UUID], Field(max_length=200)] | None = Field(
        default=None, description="memories to leave out, such as those in the prompt already"
    )
    snippet: Annotated[int, Field(ge=20, le=32_000, strict=True), Whole] | None = Field(
        default=None, description="a text of more characters is cut at a sentence or word end; by default 1,000"
    )
    neighbours: Neighbours | None = Field(
        default=None, description="chunks before and after each chunk that are answered with it, within the snippet"
    )
    as_of: Moment | None = Field(
        default=None, description="answer from what Mnema knew at this time; needs a user, and never lies in the future"
    )
    valid_at: Moment | None = Field(
        default=None, description="answer what was so at this time, superseded memories too; needs a user"
    )
    timezone: Zone = Field(
        default="UTC", description='IANA time zone of a time that the query names, such as "last week"'
    )
    project_id: Identifier | None = Field(default=None, description="the id or the name of the key's own tenant")
    chat_id: Identifier | None = Field(default=None, description="another name of `thread_id`")
    limit: TopK | None = Field(default=None, description="another name of `top_k`")


class Citation(Answered):
    """The source of a citation. The fields after `created_at` are the place of a chunk.

    A chunk that a client stored has the `path`, `start` and `end` of its metadata.
    """

    memory_id: UUID
    user_id: str
    thread_id: str | None
    chat_id: str | None = Field(description="the same as `thread_id`")
    seq: int | None
    role: str | None
    actor_id: str | None
    message_id: str | None = Field(description="the turn that the memory names as its source, or the turn itself")
    created_at: datetime
    source_id: UUID | None = Field(default=None, exclude_if=is_absent)
    file_id: UUID | None = Field(default=None, exclude_if=is_absent)
    turn_id: UUID | None = Field(default=None, exclude_if=is_absent, description="the turn that the chunk is a part of")
    path: str | None = Field(default=None, exclude_if=is_absent)
    page: int | None = Field(default=None, exclude_if=is_absent)
    heading: str | None = Field(default=None, exclude_if=is_absent)
    start: int | None = Field(default=None, exclude_if=is_absent, description="first character in the file or turn")
    end: int | None = Field(default=None, exclude_if=is_absent, description="character after the last one")


class SearchResult(Answered):
    """One source of the answer, with its mark. The text is the stored one, cut if it is longer than the snippet."""

    mark: str = Field(description="`M1`, `M2` and so on: the number of its line")
    id: UUID
    type: TypeWord
    text: str
    score: float
    relevance: float | None = Field(
        default=None,
        exclude_if=is_absent,
        description="probability from 0 to 1 that the source helps to answer; absent if it is not known",
    )
    also: list[UUID] | None = Field(
        default=None, exclude_if=is_absent, description="memories that say the same and are not listed"
    )
    source: Citation


class SearchAnswer(Answered):
    """The answer of a search, best source first.

    Put `text` into a prompt; `citations` leads from the marks that a model repeats to their sources. A mark that a
    stored text contains has round brackets in `text`: `[M7]` becomes `(M7)`.
    """

    results: list[SearchResult]
    text: str = Field(description="one line for each result: `[M1] …`")
    citations: dict[str, Citation] = Field(description="the source of each mark")
    tokens: int | None = Field(
        default=None, exclude_if=is_absent, description="tokens of the lines; only with `budget_tokens`"
    )
    took_ms: float
    degraded: str | None = Field(
        default=None, exclude_if=is_absent, description="a part that was not available, such as embedder_unavailable"
    )


class ThreadTurn(Answered):
    """A turn of a thread, as it was said."""

    id: UUID
    user_id: str
    role: str | None
    content: str
    actor_id: str | None
    seq: int | None
    metadata: dict[str, Any]
    created_at: datetime


class ThreadTurns(Page[ThreadTurn]):
    """A page of a thread's turns, oldest first. Pass `next_cursor` as `cursor` for the next page."""
