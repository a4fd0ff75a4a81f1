"""memory.query (seed 003 §6): candidates → signals → fusion → selection → budget, and the thread's delta header."""

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any

from app.config.loader import Policies
from app.domain.budget import Budget, line_tokens
from app.domain.candidates import Candidate
from app.domain.changes import Observation
from app.domain.delta import Header, shrink
from app.domain.errors import EmbedderUnavailable, InvalidInput, RerankerUnavailable
from app.domain.filters import Filters
from app.domain.memory import Memory
from app.domain.presentation import bullet
from app.domain.scope import Scope
from app.domain.scoring import (
    Asked,
    Dropped,
    Profile,
    Scored,
    cap_categories,
    keep_read,
    keep_relevant,
    keep_similar,
    score,
    select,
)
from app.domain.text_rules import normalise
from app.ports import Clock, Embedder, Embedding, TokenCounter
from app.storage.access import AccessLog
from app.storage.delta import DeltaStorage
from app.storage.search import Search, SearchStorage
from app.storage.uow import ReadTx, UnitOfWork, WriteTx
from app.usecases.memories.candidates import Candidates
from app.usecases.memories.delta import Delta, ReadDelta


@dataclass(frozen=True, slots=True)
class Query:
    """A request as seed 003 §6 has it, plus thread, revision and explain."""

    agent: str
    query: str
    categories: tuple[str, ...] = ()
    filters: Filters = field(default_factory=Filters)
    top_k: int | None = None
    budget_tokens: int | None = None
    threshold: float | None = None
    thread_id: str | None = None
    since_rev: int | None = None
    explain: bool = False
    profile: str | None = None
    zone: tzinfo = UTC


@dataclass(frozen=True, slots=True)
class Item:
    """One memory of the answer. `scored` is None for a context-mode `all` category: it was not ranked."""

    memory: Memory
    text: str
    scored: Scored | None = None
    strength: float | None = None


@dataclass(slots=True)
class Answer:
    """What is answered. `tokens` never exceeds the budget; `degraded` names what was not available."""

    items: list[Item] = field(default_factory=list)
    related: list[Item] = field(default_factory=list)
    header: str = ""
    delta: dict[str, Any] | None = None
    tokens: int = 0
    took_ms: float = 0.0
    degraded: str | None = None
    dropped: list[Dropped] = field(default_factory=list)


@dataclass(slots=True)
class _Work:
    """What one query carries through its stages."""

    scope: Scope
    query: Query
    search: Search
    profile: Profile
    asked: Asked
    whole: list[str]
    lengths: dict[str, int]
    top_k: int
    budget: Budget
    answer: Answer


class QueryMemories:
    """The one use-case behind the HTTP route and the agents' tool."""

    def __init__(
        self,
        uow: UnitOfWork,
        search: SearchStorage,
        candidates: Candidates,
        delta: ReadDelta,
        cursors: DeltaStorage,
        embedder: Embedder,
        tokens: TokenCounter,
        access: AccessLog,
        policies: Policies,
        clock: Clock,
    ) -> None:
        self._uow = uow
        self._search = search
        self._candidates = candidates
        self._delta = delta
        self._cursors = cursors
        self._embedder = embedder
        self._tokens = tokens
        self._access = access
        self._policies = policies
        self._clock = clock

    async def ask(self, scope: Scope, query: Query) -> Answer:
        """Answer `query`.

        Raises AgentNotAllowed, UnknownAgent, CategoryNotAllowed, InvalidInput. A model that fails does not: the answer
        is then lexical, or the one without a reranker, and says `degraded`.
        """
        started = time.perf_counter()
        work = await self._prepare(scope.speaking_as(query.agent), query)
        read = await self._read_before(work)
        async with self._connection(work) as tx:
            await self._add_delta(tx, work)
            await self._add_items(tx, work, await self._choose(tx, work, read))
        answer = work.answer
        answer.tokens = work.budget.total - work.budget.left
        self._remember_access(work)
        answer.took_ms = round((time.perf_counter() - started) * 1000, 2)
        return answer

    async def _prepare(self, scope: Scope, query: Query) -> _Work:
        policies = self._policies
        categories = policies.categories.resolve(scope, query.agent, query.categories, query.filters.category)
        if not (text := normalise(query.query)):
            raise InvalidInput("query is empty")
        name = query.profile or policies.query.profile
        if name not in policies.profiles:
            raise InvalidInput(f"profile is one of {', '.join(policies.profiles)}")
        profile = policies.profiles[name]
        answer = Answer()
        modes = {c: policies.categories.get(c).context for c in categories}
        ranked = [c for c, mode in modes.items() if mode == "rag"]
        embedding = await self._embed(text, answer) if ranked else None
        top_k = query.top_k or policies.query.top_k
        search = Search(
            filters=query.filters,
            categories=tuple(categories),
            text=text,
            vector=embedding.vector if embedding else None,
            dense=max(profile.dense_candidates, profile.pool * top_k),
            lexical=profile.lexical_candidates,
            with_vectors=profile.mmr_lambda < 1.0,
            with_strengths=profile.relation != 0,
            with_tokens=profile.late != 0 and embedding is not None and bool(embedding.tokens),
            beside=profile.neighbour_candidates,
            exact=policies.query.exact_up_to,
        )
        budget = Budget(query.budget_tokens or policies.query.budget_tokens)
        whole = [c for c, mode in modes.items() if mode == "all"]
        asked = Asked(text, *((embedding.tokens, embedding.words) if embedding else (None, ())), query.zone)
        lengths = {c: policies.categories.get(c).rag_length for c in ranked}
        return _Work(scope, query, search, profile, asked, whole, lengths, top_k, budget, answer)

    async def _embed(self, text: str, answer: Answer) -> Embedding | None:
        try:
            return await self._embedder.encode_query(text)
        except EmbedderUnavailable as error:
            answer.degraded = error.code
            return None

    def _connection(self, work: _Work) -> AbstractAsyncContextManager[ReadTx]:
        """A transaction only where a thread's cursor has to fit what is read, read-write only when it may move."""
        if work.query.thread_id is None:
            return self._uow.calls()
        return self._uow.write(work.scope) if work.query.since_rev is None else self._uow.read(work.scope)

    async def _add_delta(self, tx: ReadTx, work: _Work) -> None:
        query = work.query
        if query.thread_id is None:
            return
        whose = (query.agent, self._policies.categories.told(work.scope, query.agent), query.filters.user_id)
        delta = await self._delta.within(tx, work.scope, query.thread_id, query.since_rev, *whose)
        header = self._fit_header(delta, work.budget)
        work.answer.delta = {
            "since_rev": delta.since_rev,
            "rev": delta.rev,
            "more": delta.more + (delta.header.shown if delta.header else 0) - (header.shown if header else 0),
            "truncated": delta.truncated,
        }
        if header is None:
            return
        work.answer.header = header.text
        if isinstance(tx, WriteTx):
            await self._cursors.advance(tx, work.scope, query.thread_id, query.agent, delta.rev, query.filters.user_id)

    def _fit_header(self, delta: Delta, budget: Budget) -> Header | None:
        header = delta.header
        while header is not None:
            if budget.take(sum(self._cost(line) for line in header.lines)):
                return header
            header = shrink(header, header.shown - 1)
        return None

    async def _read_before(self, work: _Work) -> list[Candidate] | None:
        """The candidates if a reranker is to read them, which no transaction may wait for; None otherwise."""
        if not work.lengths or not self._candidates.to_be_read(work.profile, work.top_k):
            return None
        async with self._uow.calls() as tx:
            found = await self._candidates.find(tx, work.scope, work.search, work.lengths, work.top_k)
            best = self._candidates.best(found, work.profile, work.asked, work.top_k, work.query.threshold)
            texts = (await self._search.answer(tx, work.scope, work.search, chosen=best)).chosen
        try:
            return await self._candidates.read(found, work.asked, list(texts.values()))
        except RerankerUnavailable as error:
            work.answer.degraded = work.answer.degraded or error.code
            return found

    async def _choose(self, tx: ReadTx, work: _Work, read: list[Candidate] | None) -> list[Scored]:
        """The best of the ranked categories, at most top_k; the others are dropped."""
        if not work.lengths:
            return []
        if read is None:
            found = await self._candidates.find(tx, work.scope, work.search, work.lengths, work.top_k)
        else:
            found = await self._candidates.still_visible(tx, work.scope, work.search, read)
        scored = score(found, work.profile, self._clock.now(), work.asked)
        scored, low = keep_similar(scored, work.query.threshold)
        scored, unread = keep_read(scored, work.profile)
        scored, irrelevant = keep_relevant(scored, work.profile)
        scored, over = cap_categories(scored, work.lengths)
        chosen, rest = select(scored, work.top_k, work.profile)
        work.answer.dropped = [*low, *unread, *irrelevant, *over, *rest]
        return chosen

    async def _add_items(self, tx: ReadTx, work: _Work, chosen: Sequence[Scored]) -> None:
        """What comes whole, what was chosen and what is related to them, as far as the budget goes."""
        if not work.whole and not chosen:
            return
        found = await self._search.answer(
            tx,
            work.scope,
            work.search,
            whole=work.whole,
            whole_limit=self._policies.query.whole_limit,
            chosen=[s.candidate.id for s in chosen],
            related=self._policies.query.related,
        )
        self._add_whole(work, found.whole)
        for s in chosen:
            if (memory := found.chosen.get(s.candidate.id)) is None:
                continue  # deleted since it was looked at
            item = Item(memory, bullet(memory), s)
            if work.budget.take(self._cost(item.text)):
                work.answer.items.append(item)
            else:
                work.answer.dropped.append(Dropped(s, "budget"))
        answered = {item.memory.id for item in work.answer.items}
        for related in found.related:
            item = Item(related.memory, bullet(related.memory), strength=related.strength)
            if related.via in answered and work.budget.take(self._cost(item.text)):
                work.answer.related.append(item)

    def _add_whole(self, work: _Work, memories: Sequence[Memory]) -> None:
        """Context-mode `all`: extra to top_k; leaves at least half of what is left to the ranked categories."""
        reserve = -(-work.budget.left // 2) if work.lengths else 0
        for memory in memories:
            item = Item(memory, bullet(memory))
            cost = self._cost(item.text)
            if work.budget.left - cost >= reserve and work.budget.take(cost):
                work.answer.items.append(item)

    def _cost(self, line: str) -> int:
        return line_tokens(line, self._tokens.count(line))

    def _remember_access(self, work: _Work) -> None:
        similarities = [i.scored.candidate.similarity for i in work.answer.items if i.scored]
        event = Observation(
            node="context",
            op="search",
            status="ok" if work.answer.degraded is None else "error",
            user_id=work.query.filters.user_id,
            thread_id=work.query.thread_id,
            category=work.search.categories[0] if len(work.search.categories) == 1 else None,
            sim=max((s for s in similarities if s is not None), default=None),
        )
        self._access.seen(work.scope, (item.memory.id for item in work.answer.items), event)
