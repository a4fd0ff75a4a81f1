"""Search with citations: turns, memories and chunks across a user's threads, each with a mark and its source."""

import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any, Final
from uuid import UUID

from app.config.loader import Policies
from app.domain.filters import Filters
from app.domain.memory.memory import Memory, MemoryType
from app.domain.principal import Principal
from app.domain.recall.arrangement import RankedItem, arrange_answer
from app.domain.recall.citations import citation_line, citation_mark
from app.domain.recall.token_budget import TokenBudget, line_tokens
from app.domain.text_rules import trim_text
from app.ports import TokenCounter
from app.storage.access_log import AccessLog
from app.storage.recall.search import FoundMemories, SearchStorage
from app.storage.uow import UnitOfWork
from app.usecases.offload import offload_if_large
from app.usecases.recall.ranking import RankMemories

EVERY: Final = sys.maxsize
"""The number of candidates of a category: a search has no `rag_length`."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search as a client sends it. None means the default of the configuration.

    `filters` may name the user; without one all users of the tenant are searched. `types`: the memory types that are
    searched; empty means all but procedures. `thread_id` decides near ties and never filters. A text longer than
    `snippet` characters is cut. Without `budget_tokens` no line is left out.
    """

    query: str
    filters: Filters = field(default_factory=Filters)
    thread_id: str | None = None
    types: frozenset[MemoryType] = frozenset()
    top_k: int | None = None
    budget_tokens: int | None = None
    min_relevance: float | None = None
    exclude_ids: tuple[UUID, ...] = ()
    snippet: int | None = None
    profile: str | None = None
    threshold: float | None = None
    zone: tzinfo = UTC

    @property
    def left_out(self) -> dict[str, Any] | None:
        """Conditions for `memory_matches()` that leave out what the caller does not want."""
        conditions: dict[str, Any] = {}
        if self.exclude_ids:
            conditions["exclude_ids"] = [str(id_) for id_ in self.exclude_ids]
        if self.types:
            conditions["type"] = sorted(self.types)
        return conditions or None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One source of the answer: its `mark`, and its text as stored, cut if it is longer than the snippet."""

    mark: str
    memory: Memory
    text: str
    line: str
    ranked: RankedItem


@dataclass(slots=True)
class SearchAnswer:
    """The answer of a search, best source first. `tokens` counts its lines, only if the search has a budget.

    `degraded` is the code of an unavailable model.
    """

    results: list[SearchResult]
    tokens: int | None = None
    degraded: str | None = None
    took_ms: float = 0.0

    @property
    def text(self) -> str:
        """The lines of all results."""
        return "\n".join(result.line for result in self.results)


class SearchMemories:
    """The use-case that searches with citations. It ranks as memory.query does, for no agent."""

    def __init__(
        self,
        uow: UnitOfWork,
        search: SearchStorage,
        ranks: RankMemories,
        tokens: TokenCounter,
        access: AccessLog,
        policies: Policies,
    ) -> None:
        self._uow = uow
        self._search = search
        self._ranks = ranks
        self._tokens = tokens
        self._access = access
        self._policies = policies

    async def search_memories(self, principal: Principal, query: SearchQuery) -> SearchAnswer:
        """Answer `query` from the categories that the key may see, except procedures. Raise InvalidInput.

        Without the embedder the answer is lexical, without the reranker it is not reranked; `degraded` then has the
        error's code.
        """
        started = time.perf_counter()
        categories = self._policies.categories.searchable_by(principal)
        lengths = dict.fromkeys(categories, EVERY)
        ranking = await self._ranks.prepare_ranking(principal, query, categories, lengths)
        reranked = await self._ranks.rerank_candidates(ranking)
        async with self._uow.calls(principal) as tx:
            chosen = await self._ranks.choose_ranked(tx, ranking, reranked)
            ids, found = [scored.candidate.id for scored in chosen], FoundMemories()
            if ids:
                found = await self._search.load_answer(tx, principal, ranking.search, chosen=ids)
        items, _ = arrange_answer(chosen, found.chosen, ranking.search.text, ranking.limits)
        snippet = query.snippet or self._policies.query.snippet
        size = sum(min(len(memory.text), snippet) for memory in found.chosen.values())
        answer = await offload_if_large(size, self._cite_items, items, found, snippet, query.budget_tokens)
        answer.degraded = ranking.degraded
        scores = [result.ranked.scored for result in answer.results]
        ids = [result.memory.id for result in answer.results]
        self._access.record_access(principal, ids, ranking.observe_search(scores))
        answer.took_ms = round((time.perf_counter() - started) * 1000, 2)
        return answer

    def _cite_items(
        self, items: list[RankedItem], found: FoundMemories, snippet: int, budget_tokens: int | None
    ) -> SearchAnswer:
        """Return the items as numbered lines. A line that does not fit into the budget is left out whole."""
        answer = SearchAnswer([])
        budget = None if budget_tokens is None else TokenBudget(budget_tokens)
        for item in items:
            memory, number = found.chosen[item.scored.candidate.id], len(answer.results) + 1
            text = trim_text(memory.text, snippet)
            line = citation_line(number, text)
            if budget is None or budget.try_spend(self._line_cost(line, budget.tokens_left)):
                answer.results.append(SearchResult(citation_mark(number), memory, text, line, item))
        if budget is not None:
            answer.tokens = budget.total - budget.tokens_left
        return answer

    def _line_cost(self, line: str, left: int) -> int:
        """Return the cost of the line. WordPieces are not counted if its bytes alone are too many."""
        least = line_tokens(line, 0)
        return least if least > left else line_tokens(line, self._tokens.count_tokens(line))
