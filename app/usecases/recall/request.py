"""A query as a client sends it, and the state that it carries through its stages."""

from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any
from uuid import UUID

from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.principal import Principal
from app.domain.recall.arrangement import AnswerLimits
from app.domain.recall.profiles import RankingProfile, RankingQuery
from app.domain.recall.scoring import ScoredCandidate
from app.storage.recall.search import Search
from app.usecases.recall.answer import Answer, AnswerBuilder


@dataclass(frozen=True, slots=True)
class Query:
    """A query as a client sends it (`docs/contract.md`, Recall). None means the default of the configuration.

    `since_rev` None: the agent's cursor. `zone` is the time zone of words such as "yesterday" in `query`. The answer
    has no turns of `thread_id` from `before_seq` on, and none of the memories `exclude_ids`.
    """

    agent: str
    query: str
    categories: tuple[str, ...] = ()
    filters: Filters = field(default_factory=Filters)
    top_k: int | None = None
    budget_tokens: int | None = None
    threshold: float | None = None
    min_relevance: float | None = None
    thread_id: str | None = None
    before_seq: int | None = None
    exclude_ids: tuple[UUID, ...] = ()
    since_rev: int | None = None
    explain: bool = False
    profile: str | None = None
    zone: tzinfo = UTC
    full: bool = False

    @property
    def left_out(self) -> dict[str, Any] | None:
        """Conditions for `memory_matches()` that leave out what the caller does not want. Raise InvalidInput."""
        conditions: dict[str, Any] = {}
        if self.exclude_ids:
            conditions["exclude_ids"] = [str(id_) for id_ in self.exclude_ids]
        if self.before_seq is not None:
            if self.thread_id is None:
                raise InvalidInput("before_seq needs thread_id")
            conditions |= {"before_seq": self.before_seq, "before_thread": self.thread_id}
        return conditions or None


@dataclass(slots=True)
class QueryState:
    """The state that one query carries through its stages."""

    principal: Principal
    query: Query
    search: Search
    profile: RankingProfile
    ranking_query: RankingQuery
    pinned_categories: list[str]
    lengths: dict[str, int]
    limits: AnswerLimits
    answer: Answer
    builder: AnswerBuilder
    ranked: list[ScoredCandidate] = field(default_factory=list)
