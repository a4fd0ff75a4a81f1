"""Bodies of memory.query, the delta and the event counts (`docs/contract.md`, Recall)."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from mnema_wire.bases import Request
from mnema_wire.fields import Identifier, Importance, Moment, Sequence, TypeName, Whole, Zone
from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.facts.facts import FactAnswerOut
from app.domain.filters import Filters
from app.domain.memory.memory import Memory
from app.domain.recall.candidates import Candidate
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import DropReason
from app.usecases.recall.answer import Answer, AnswerItem
from app.usecases.recall.request import Query

QUERY_EXAMPLE: dict[str, Any] = {
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


class RowFiltersIn(Request):
    """The filters that queries and batches share."""

    user_id: Identifier | None = None
    agent_id: Identifier | None = None
    run_id: Identifier | None = None
    actor_id: Identifier | None = None
    role: Identifier | None = None
    pinned: Annotated[bool, Field(strict=True)] | None = None
    importance_min: Importance | None = None
    importance_max: Importance | None = None
    updated_after: Moment | None = Field(default=None, description="inclusive; a date without a time is midnight UTC")
    updated_before: Moment | None = Field(default=None, description="exclusive; a date without a time is midnight UTC")


class FiltersIn(RowFiltersIn):
    """Filters, combined with AND. Null or absent: no filter. `pinned: false`: only unpinned memories.

    Without `user_id` the query covers the whole tenant.
    """

    category: Identifier | None = None

    def to_domain(self) -> Filters:
        """Return the domain object. Raise InvalidInput for an empty range."""
        return Filters(**{name: getattr(self, name) for name in type(self).model_fields})


class QueryIn(Request):
    """The body of memory.query."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [QUERY_EXAMPLE]})
    agent: Identifier
    query: Annotated[str, Field(min_length=1, max_length=8000)]
    categories: Annotated[list[Identifier], Field(max_length=100)] | None = Field(
        default=None, description="absent or empty: all categories of the agent except procedural"
    )
    filters: FiltersIn | None = None
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
    profile: Identifier | None = Field(default=None, description="ranking profile of config/policies.yaml")
    timezone: Zone = Field(
        default="UTC", description='IANA time zone of a time that the question names, such as "last week"'
    )

    def to_domain(self) -> Query:
        """Return the query that the use-case takes. Raise InvalidInput for an empty range in the filters."""
        return Query(
            agent=self.agent,
            query=self.query,
            categories=tuple(self.categories or ()),
            filters=(self.filters or FiltersIn()).to_domain(),
            top_k=self.top_k,
            budget_tokens=self.budget_tokens,
            threshold=self.threshold,
            min_relevance=self.min_relevance,
            thread_id=self.thread_id,
            before_seq=self.before_seq,
            exclude_ids=tuple(self.exclude_ids or ()),
            since_rev=self.since_rev,
            explain=self.explain,
            profile=self.profile,
            zone=ZoneInfo(self.timezone),
            full=self.returns == "full",
            neighbours=self.neighbours or 0,
        )


class ScoreOut(BaseModel):
    """A ranking score; its parts add up to the total."""

    total: float
    parts: dict[str, float]
    similarity: float | None = Field(default=None, description="cosine similarity to the query")


class ItemOut(BaseModel):
    """A memory of the answer.

    The fields after `mark` are present with return=full, `score` with return=full or explain. A chunk always has its
    `source`: `path`, `start` and `end` in a file, or `turn_id`, `start` and `end` in a turn.
    """

    id: UUID
    category: str
    text: str
    mark: str | None = Field(
        default=None, description="`M1`, `M2` and so on; only on chunks, whose line starts with it"
    )
    type: TypeName | None = None
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
    score: ScoreOut | None = None
    relevance: float | None = Field(
        default=None, description="probability from 0 to 1 that the item helps to answer; absent if it is not known"
    )
    also: list[UUID] | None = Field(default=None, description="memories that say the same and are not listed")
    superseded_by: UUID | None = Field(
        default=None, description="a later statement about the same attribute; only with explain"
    )
    strength: float | None = Field(default=None, description="strength of the relation; only on related items")


Reason = DropReason | Literal["budget"]


class DroppedOut(BaseModel):
    """A candidate that is not among the items. It may be among the related items."""

    id: UUID
    category: str
    reason: Reason
    score: ScoreOut | None = Field(default=None, description="absent if the candidate was not ranked")


class DeltaOut(BaseModel):
    """The revisions that a delta covers."""

    since_rev: int
    rev: int = Field(description="newest revision of a change that the agent may see; the next `since_rev`")
    more: int = Field(description="number of changed memories that the header does not list")
    truncated: bool = Field(description="changes since `since_rev` are no longer stored")


class AnswerOut(BaseModel):
    """The answer of memory.query. Put `header` before the items; it is empty if nothing changed."""

    items: list[ItemOut]
    related: list[ItemOut]
    header: str
    delta: DeltaOut | None = None
    tokens: int
    took_ms: float
    fact_answer: FactAnswerOut | None = Field(
        default=None, description="the answer from stored facts, if the query asks for facts of the filtered user"
    )
    answerable: float | None = Field(
        default=None, description="the best relevance of all candidates: near 0, no ranked memory answers the query"
    )
    degraded: str | None = Field(
        default=None, description="a part that was not available, such as embedder_unavailable"
    )
    dropped: list[DroppedOut] | None = Field(default=None, description="only with explain")
    query_id: UUID | None = Field(default=None, description="id of the answer's receipt")

    @classmethod
    def from_answer(cls, answer: Answer, *, full: bool, explain: bool) -> "AnswerOut":
        """Return the body for the use-case's answer. The whole body is validated once."""
        return cls.model_validate(
            {
                "items": [_item_fields(i, full, explain) for i in answer.items],
                "related": [_item_fields(i, full, explain) for i in answer.related],
                "header": answer.header,
                "delta": answer.delta or None,
                "tokens": answer.tokens,
                "took_ms": answer.took_ms,
                "fact_answer": answer.fact_answer and FactAnswerOut.from_answer(answer.fact_answer, answer.fact_line),
                "answerable": round_relevance(answer.answerable),
                "degraded": answer.degraded,
                "dropped": _all_dropped(answer) if explain else None,
                "query_id": answer.query_id,
            }
        )


_FULL = set(ItemOut.model_fields) - {"score", "strength", "relevance", "also", "superseded_by", "mark"}


def _item_fields(item: AnswerItem, full: bool, explain: bool) -> dict[str, Any]:
    memory = item.memory
    values: dict[str, Any] = {"id": memory.id, "category": memory.category, "text": item.text}
    if full:
        values = {name: getattr(memory, name) for name in _FULL} | {"tags": list(memory.tags)}
    if (ranked := item.ranked) is not None:
        values |= {"relevance": round_relevance(ranked.scored.relevance), "also": list(ranked.also) or None}
        if full or explain:
            values["score"] = _score_out(ranked.scored)
        if explain:
            values["superseded_by"] = ranked.superseded_by
    if item.mark is not None:
        values |= {"mark": item.mark, "source": memory.source}
    return values | {"strength": item.strength}


def round_relevance(relevance: float | None) -> float | None:
    """Return the relevance with four decimals, None if it is not known."""
    return None if relevance is None else round(relevance, 4)


def _score_out(scored: ScoredCandidate) -> ScoreOut:
    return ScoreOut(total=scored.total, parts=scored.parts, similarity=scored.candidate.similarity)


def _all_dropped(answer: Answer) -> list[DroppedOut]:
    early = [_dropped_out(d.scored.candidate, d.reason, d.scored) for d in answer.dropped]
    # a dropped candidate may also be a related memory that did not fit into the budget
    late = answer.left_out.keys() - {dropped.id for dropped in early}
    return early + [_dropped_out(i.memory, "budget", i.scored) for id_, i in answer.left_out.items() if id_ in late]


def _dropped_out(memory: Candidate | Memory, reason: Reason, scored: ScoredCandidate | None) -> DroppedOut:
    score = _score_out(scored) if scored else None
    return DroppedOut(id=memory.id, category=memory.category, reason=reason, score=score)


class ThreadDeltaOut(DeltaOut):
    """A thread's delta, with the text of its header."""

    header: str


class EventCountOut(BaseModel):
    """The number of events in one group, with the values of the group's columns."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [{"op": "create", "node": "hotpath", "count": 12}]}
    )
    count: int


class CountsOut(BaseModel):
    """Event counts by the requested columns."""

    counts: list[EventCountOut]
