"""Search with citations: turns, memories and chunks across a user's threads, each with a mark and its source."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any, Final
from uuid import UUID

from mnema_wire.marks import TagNames

from app.config.loader import Policies
from app.config.tenant_policies import TenantPolicies
from app.domain.filters import Conditions, Filters
from app.domain.memory.memory import Memory, MemoryType
from app.domain.memory.moments import NOW, Moments
from app.domain.principal import Principal
from app.domain.recall.arrangement import RankedItem, arrange_answer
from app.domain.recall.passages import FoundChunk, Passage
from app.domain.recall.selection import merge_ordered
from app.domain.recall.token_budget import TokenBudget, line_tokens
from app.domain.rendering.lines import citation_line, citation_mark
from app.domain.rendering.model_text import ModelText, join_lines
from app.domain.text_rules import trim_text
from app.ports import TokenCounter
from app.storage.access_log import AccessLog
from app.storage.recall.search import FoundMemories, SearchStorage
from app.storage.uow import UnitOfWork
from app.usecases.offload import offload_if_large
from app.usecases.recall.chunks import FindChunks, fit_passages
from app.usecases.recall.ranking import RankMemories

EVERY: Final = sys.maxsize
"""The number of candidates of a category: a search has no `rag_length`."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search as a client sends it. None means the default of the configuration.

    `filters` may name the user; without one all users of the tenant are searched. `types`: the memory types that are
    searched; empty means all but procedures. `thread_id` decides near ties and never filters. A text longer than
    `snippet` characters is cut. Without `budget_tokens` no line is left out. `neighbours`: the number of chunks before
    and after each chunk that are answered with it, as far as the snippet holds them. `moments`: the times that the
    search is about; if they are not NOW, it needs a user.
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
    neighbours: int = 0
    moments: Moments = NOW

    @property
    def left_out(self) -> Conditions:
        """The conditions that leave out what the caller does not want."""
        conditions = Conditions()
        if self.exclude_ids:
            conditions["exclude_ids"] = [str(id_) for id_ in self.exclude_ids]
        if self.types:
            conditions["type"] = sorted(self.types)
        return conditions


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One source of the answer: its `mark`, and its text as stored, cut if it is longer than the snippet.

    `line` is what a model reads. `place`: that of a chunk, as Mnema knows it.
    """

    mark: str
    memory: Memory
    text: str
    line: ModelText
    ranked: RankedItem
    place: Mapping[str, Any] | None = None


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
        """The lines of all results, for a face to send."""
        return join_lines(result.line for result in self.results).text


@dataclass(frozen=True, slots=True)
class _Source:
    """A memory of the answer; of a chunk, its passage."""

    memory: Memory
    ranked: RankedItem
    passage: Passage | None = None


def _relevance_of(source: _Source) -> float:
    return source.ranked.scored.relevance or 0.0


class SearchMemories:
    """The use-case that searches with citations. It ranks as memory.query does, for no agent."""

    def __init__(
        self,
        uow: UnitOfWork,
        search: SearchStorage,
        chunks: FindChunks,
        ranks: RankMemories,
        tokens: TokenCounter,
        access: AccessLog,
        policies: TenantPolicies,
    ) -> None:
        self._uow = uow
        self._search = search
        self._chunks = chunks
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
        policies = self._policies.of(principal)
        categories = policies.categories.searchable_by(principal)
        lengths = dict.fromkeys(categories, EVERY)
        top_k = query.top_k or policies.query.top_k
        ranking = await self._ranks.prepare_ranking(
            principal, query, categories, lengths, chunks=top_k, today=categories
        )
        reranked = await self._ranks.rerank_candidates(ranking)
        async with self._uow.calls_anywhere(principal) as tx:
            chosen = await self._ranks.choose_ranked(tx, ranking, reranked)
            ids = [scored.candidate.id for scored in chosen]
            found = FoundMemories()
            if ids:
                found = await self._search.load_answer(tx, principal, ranking.search, chosen=ids)
            chunks = await self._chunks.load_chosen(tx, ranking, query.neighbours)
        items, _ = arrange_answer(chosen, found.chosen, ranking.query.text, ranking.limits)
        snippet = query.snippet or _default_snippet(policies, query.neighbours)
        listed = [_Source(found.chosen[item.scored.candidate.id], item) for item in items]
        share = int(top_k * policies.sources.answer_share)
        listed = _mix_sources(listed, self._join_passages(chunks, query, top_k, snippet), top_k, share)
        size = sum(min(len(source.memory.text), snippet) for source in listed)
        names = policies.categories.tag_names
        answer = await offload_if_large(size, self._cite_sources, listed, names, snippet, query.budget_tokens)
        answer.degraded = ranking.degraded
        scores = [result.ranked.scored for result in answer.results]
        ids = [result.memory.id for result in answer.results]
        self._access.record_access(principal, ids, ranking.observe_search(scores))
        answer.took_ms = round((time.perf_counter() - started) * 1000, 2)
        return answer

    def _join_passages(
        self, chunks: Sequence[FoundChunk], query: SearchQuery, top_k: int, snippet: int
    ) -> list[_Source]:
        """Return the chunks with those beside them, each passage within the snippet."""

        def fits(passage: Passage, _count: int) -> bool:
            return len(passage.memory.text) <= snippet or len(passage.ids) == 1

        passages = fit_passages(chunks, query.neighbours, top_k, fits)
        return [_Source(p.memory, RankedItem(p.found.scored, p.also), p) for p in passages]

    def _cite_sources(
        self, sources: list[_Source], names: TagNames, snippet: int, budget_tokens: int | None
    ) -> SearchAnswer:
        """Return the sources as numbered lines. A line that does not fit into the budget is left out whole."""
        answer = SearchAnswer([])
        budget = None if budget_tokens is None else TokenBudget(budget_tokens)
        for source in sources:
            memory = source.memory
            number = len(answer.results) + 1
            text = memory.text if len(memory.text) <= snippet else trim_text(memory.text, snippet)
            line = citation_line(number, text, names)
            if budget is None or budget.try_spend(self._line_cost(line, budget.tokens_left)):
                place = source.passage.place if source.passage else None
                answer.results.append(SearchResult(citation_mark(number), memory, text, line, source.ranked, place))
        if budget is not None:
            answer.tokens = budget.total - budget.tokens_left
        return answer

    def _line_cost(self, line: ModelText, left: int) -> int:
        """Return the cost of the line. WordPieces are not counted if its bytes alone are too many."""
        least = line_tokens(line.text, 0)
        return least if least > left else line_tokens(line.text, self._tokens.count_tokens(line.text))


def _default_snippet(policies: Policies, neighbours: int) -> int:
    """Return the characters of a text that are answered: of a passage, all that the request asks for."""
    wanted = (2 * neighbours + 1) * policies.sources.chunk_size if neighbours else 0
    return max(policies.query.snippet, wanted)


def _mix_sources(memories: list[_Source], chunks: list[_Source], top_k: int, share: int) -> list[_Source]:
    """Return at most `top_k` sources, the more relevant first; each kind stays in its order.

    Chunks have `share` of the places, memories the others. Places that one kind does not need are free for the other.
    """
    count = min(len(chunks), max(share, top_k - len(memories)))
    return merge_ordered(memories[: top_k - count], chunks[:count], _relevance_of)
