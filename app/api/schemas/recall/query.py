"""Bodies of memory.query (seed 003 §6), the delta and the event counts."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.fields import Identifier, Importance, Moment, Request, Sequence, TypeName, Whole, Zone
from app.domain.filters import Filters
from app.domain.memory.memory import Memory
from app.domain.recall.candidates import Candidate
from app.domain.recall.scoring import ScoredCandidate
from app.usecases.recall.answer import Answer, AnswerItem
from app.usecases.recall.query import Query

SEED_EXAMPLE: dict[str, Any] = {
    "agent": "planner",
    "query": "deployment plan context",
    "categories": ["tasks", "projects"],
    "filters": {"user_id": "maya", "pinned": False, "importance_min": 1, "importance_max": 5},
    "top_k": 3,
    "return": "bullets",
    "budget_tokens": 512,
}


class FiltersIn(Request):
    """ANDed; null or absent = no filter; `pinned: false` = unpinned only; no `user_id` = tenant-wide."""

    user_id: Identifier | None = None
    agent_id: Identifier | None = None
    run_id: Identifier | None = None
    actor_id: Identifier | None = None
    role: Identifier | None = None
    category: Identifier | None = None
    pinned: Annotated[bool, Field(strict=True)] | None = None
    importance_min: Importance | None = None
    importance_max: Importance | None = None
    updated_after: Moment | None = Field(default=None, description="inclusive; a date is UTC midnight")
    updated_before: Moment | None = Field(default=None, description="exclusive; a date is UTC midnight")

    def to_domain(self) -> Filters:
        """As the use-case takes it; raises InvalidInput for an empty range."""
        return Filters(**{name: getattr(self, name) for name in type(self).model_fields})


class QueryIn(Request):
    """A question to the memory."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [SEED_EXAMPLE]})
    agent: Identifier
    query: Annotated[str, Field(min_length=1, max_length=8000)]
    categories: Annotated[list[Identifier], Field(max_length=100)] | None = Field(
        default=None, description="none = all of the agent's, less procedural"
    )
    filters: FiltersIn | None = None
    top_k: Annotated[int, Field(ge=1, le=50, strict=True), Whole] | None = None
    returns: Literal["bullets", "full"] = Field(default="bullets", alias="return")
    budget_tokens: Annotated[int, Field(ge=1, le=8192, strict=True), Whole] | None = Field(
        default=None, description="of header and bullets; with return=full of tags, source and metadata too"
    )
    threshold: Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)] | None = Field(
        default=None, description="least cosine similarity"
    )
    thread_id: Identifier | None = Field(
        default=None,
        description="selects the delta header, of the filtered user's memories, and decides near ties; never filters",
    )
    since_rev: Sequence | None = None
    explain: bool = Field(default=False, strict=True)
    profile: Identifier | None = Field(default=None, description="ranking profile of config/policies.yaml")
    timezone: Zone = Field(default="UTC", description="IANA name: what the asker means by yesterday")

    def to_domain(self) -> Query:
        """As the use-case takes it."""
        return Query(
            agent=self.agent,
            query=self.query,
            categories=tuple(self.categories or ()),
            filters=(self.filters or FiltersIn()).to_domain(),
            top_k=self.top_k,
            budget_tokens=self.budget_tokens,
            threshold=self.threshold,
            thread_id=self.thread_id,
            since_rev=self.since_rev,
            explain=self.explain,
            profile=self.profile,
            zone=ZoneInfo(self.timezone),
            full=self.returns == "full",
        )


class ScoreOut(BaseModel):
    """The parts add up to the total."""

    total: float
    parts: dict[str, float]
    similarity: float | None = Field(default=None, description="cosine")


class ItemOut(BaseModel):
    """A memory of the answer; the fields after `text` come with return=full, `score` with full or explain."""

    id: UUID
    category: str
    text: str
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
    strength: float | None = Field(default=None, description="of the relation, on related items")


Reason = Literal["threshold", "score_threshold", "rag_length", "rank", "diversity", "budget"]


class DroppedOut(BaseModel):
    """A candidate that was considered and is not among the items; it may still be related to one of them."""

    id: UUID
    category: str
    reason: Reason
    score: ScoreOut | None = Field(default=None, description="of what was ranked")


class DeltaOut(BaseModel):
    """Where the thread stands."""

    since_rev: int
    rev: int
    more: int = Field(description="visible changes beyond the header's bullets")
    truncated: bool


class AnswerOut(BaseModel):
    """The answer. `header` is empty when nothing changed; put it before the items."""

    items: list[ItemOut]
    related: list[ItemOut]
    header: str
    delta: DeltaOut | None = None
    tokens: int
    took_ms: float
    degraded: str | None = Field(default=None, description="what was not available, e.g. embedder_unavailable")
    dropped: list[DroppedOut] | None = Field(default=None, description="with explain")

    @classmethod
    def from_answer(cls, answer: Answer, *, full: bool, explain: bool) -> "AnswerOut":
        """From the use-case's answer, validated once and as a whole."""
        return cls.model_validate(
            {
                "items": [_item_fields(i, full, explain) for i in answer.items],
                "related": [_item_fields(i, full, explain) for i in answer.related],
                "header": answer.header,
                "delta": answer.delta or None,
                "tokens": answer.tokens,
                "took_ms": answer.took_ms,
                "degraded": answer.degraded,
                "dropped": _all_dropped(answer) if explain else None,
            }
        )


_FULL = set(ItemOut.model_fields) - {"score", "strength"}


def _item_fields(item: AnswerItem, full: bool, explain: bool) -> dict[str, Any]:
    memory = item.memory
    values: dict[str, Any] = {"id": memory.id, "category": memory.category, "text": item.text}
    if full:
        values = {name: getattr(memory, name) for name in _FULL} | {"tags": list(memory.tags)}
    if item.scored is not None and (full or explain):
        values["score"] = _score_out(item.scored)
    return values | {"strength": item.strength}


def _score_out(scored: ScoredCandidate) -> ScoreOut:
    return ScoreOut(total=scored.total, parts=scored.parts, similarity=scored.candidate.similarity)


def _all_dropped(answer: Answer) -> list[DroppedOut]:
    early = [_dropped_out(d.scored.candidate, d.reason, d.scored) for d in answer.dropped]
    late = answer.left_out.keys() - {dropped.id for dropped in early}  # those may be related to the best
    return early + [_dropped_out(i.memory, "budget", i.scored) for id_, i in answer.left_out.items() if id_ in late]


def _dropped_out(what: Candidate | Memory, reason: Reason, scored: ScoredCandidate | None) -> DroppedOut:
    return DroppedOut(id=what.id, category=what.category, reason=reason, score=_score_out(scored) if scored else None)


class ThreadDeltaOut(DeltaOut):
    """A thread's delta with its header."""

    header: str


class CountOut(BaseModel):
    """Events of one group."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [{"op": "create", "node": "hotpath", "count": 12}]}
    )
    count: int


class CountsOut(BaseModel):
    """Event counts by the asked-for columns."""

    counts: list[CountOut]
