"""memory.query: candidates → signals → fusion → selection → budget, and the thread's delta header."""

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from app.config.loader import Policies
from app.domain.changes import Observation
from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.outages import EmbedderUnavailable, RerankerUnavailable
from app.domain.principal import Principal
from app.domain.recall.candidates import Candidate
from app.domain.recall.scoring import RankingProfile, RankingQuery, ScoredCandidate, score_candidates
from app.domain.recall.selection import cap_categories, keep_relevant, keep_reranked, keep_similar, select_best
from app.domain.recall.token_budget import TokenBudget
from app.domain.text_rules import normalise_text
from app.ports import Clock, Embedder, Embedding, TokenCounter
from app.storage.access_log import AccessLog
from app.storage.recall.delta import DeltaStorage
from app.storage.recall.search import Search, SearchStorage
from app.storage.uow import ReadTx, UnitOfWork, WriteTx
from app.usecases.recall.answer import Answer, AnswerBuilder
from app.usecases.recall.candidates import Candidates
from app.usecases.recall.delta import ReadDelta


@dataclass(frozen=True, slots=True)
class Query:
    """A query as a client sends it (`docs/contract.md`, Recall). None means the default of the configuration.

    `since_rev` None: the agent's cursor. `zone` is the time zone of words such as "yesterday" in `query`.
    """

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
    full: bool = False


@dataclass(slots=True)
class _QueryState:
    """The state that one query carries through its stages."""

    principal: Principal
    query: Query
    search: Search
    profile: RankingProfile
    ranking_query: RankingQuery
    pinned_categories: list[str]
    lengths: dict[str, int]
    top_k: int
    answer: Answer
    builder: AnswerBuilder


class QueryMemories:
    """The use-case behind the HTTP route and the MCP tool `memory.query`."""

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

    async def answer_query(self, principal: Principal, query: Query) -> Answer:
        """Answer `query`. Raise AgentNotAllowed, UnknownAgent, CategoryNotAllowed or InvalidInput.

        Without the embedder the answer is lexical, without the reranker it is not reranked; `degraded` then has the
        error's code.
        """
        started = time.perf_counter()
        work = await self._prepare_query(principal.speaking_as(query.agent), query)
        reranked = await self._rerank_candidates(work)
        async with self._open_transaction(work) as tx:
            await self._add_delta(tx, work)
            await self._add_items(tx, work, await self._choose_ranked(tx, work, reranked))
        answer = work.answer
        answer.tokens = work.builder.spent_tokens
        self._record_access(work)
        answer.took_ms = round((time.perf_counter() - started) * 1000, 2)
        return answer

    async def _prepare_query(self, principal: Principal, query: Query) -> _QueryState:
        policies = self._policies
        categories = policies.categories.resolve_categories(
            principal, query.agent, query.categories, query.filters.category
        )
        if not (text := normalise_text(query.query)):
            raise InvalidInput("query is empty")
        if (profile := policies.profiles.get(query.profile or policies.query.profile)) is None:
            raise InvalidInput(f"unknown profile {query.profile!r}; use one of: {', '.join(policies.profiles)}")
        answer = Answer()
        modes = {c: policies.categories.get_category(c).context for c in categories}
        ranked = [c for c, mode in modes.items() if mode == "rag"]
        embedding = await self._embed_query(text, answer) if ranked else None
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
        budget = TokenBudget(query.budget_tokens or policies.query.budget_tokens)
        builder = AnswerBuilder(answer, budget, self._tokens, full=query.full)
        pinned = [c for c, mode in modes.items() if mode == "all"]
        word_vectors = (embedding.tokens, embedding.words) if embedding else (None, ())
        ranking_query = RankingQuery(text, *word_vectors, query.zone, query.thread_id)
        lengths = {c: policies.categories.get_category(c).rag_length for c in ranked}
        return _QueryState(principal, query, search, profile, ranking_query, pinned, lengths, top_k, answer, builder)

    async def _embed_query(self, text: str, answer: Answer) -> Embedding | None:
        try:
            return await self._embedder.encode_query(text)
        except EmbedderUnavailable as error:
            answer.degraded = error.code
            return None

    def _open_transaction(self, work: _QueryState) -> AbstractAsyncContextManager[ReadTx]:
        """Open a transaction only if the query names a thread: its cursor must fit what is read.

        The transaction is read-write only if the cursor may move.
        """
        if work.query.thread_id is None:
            return self._uow.calls(work.principal)
        return self._uow.write(work.principal) if work.query.since_rev is None else self._uow.read(work.principal)

    async def _add_delta(self, tx: ReadTx, work: _QueryState) -> None:
        query = work.query
        if query.thread_id is None:
            return
        viewer = (
            query.agent,
            self._policies.categories.delta_categories(work.principal, query.agent),
            query.filters.user_id,
        )
        delta = await self._delta.read_in_transaction(tx, work.principal, query.thread_id, query.since_rev, *viewer)
        header = work.builder.add_header(delta.header)
        work.answer.delta = {
            "since_rev": delta.since_rev,
            "rev": delta.rev,
            "more": delta.more + (delta.header.shown if delta.header else 0) - (header.shown if header else 0),
            "truncated": delta.truncated,
        }
        if header is not None and isinstance(tx, WriteTx):
            await self._cursors.advance_cursor(
                tx, work.principal, query.thread_id, query.agent, delta.rev, query.filters.user_id
            )

    async def _rerank_candidates(self, work: _QueryState) -> list[Candidate] | None:
        """Return the reranked candidates, None if nothing needs reranking. No transaction is open meanwhile."""
        if not work.lengths or not self._candidates.needs_reranking(work.profile, work.top_k):
            return None
        async with self._uow.calls(work.principal) as tx:
            candidates = await self._candidates.find_candidates(
                tx, work.principal, work.search, work.lengths, work.top_k
            )
            best = self._candidates.best_ids(
                candidates, work.profile, work.ranking_query, work.top_k, work.query.threshold
            )
            texts = (await self._search.load_answer(tx, work.principal, work.search, chosen=best)).chosen
        try:
            return await self._candidates.rerank_best(candidates, work.ranking_query, list(texts.values()))
        except RerankerUnavailable as error:
            work.answer.degraded = work.answer.degraded or error.code
            return candidates

    async def _choose_ranked(
        self, tx: ReadTx, work: _QueryState, reranked: list[Candidate] | None
    ) -> list[ScoredCandidate]:
        """Return the best of the ranked categories, at most `top_k`; list the others as dropped."""
        if not work.lengths:
            return []
        if reranked is None:
            candidates = await self._candidates.find_candidates(
                tx, work.principal, work.search, work.lengths, work.top_k
            )
        else:
            candidates = await self._candidates.keep_visible(tx, work.principal, work.search, reranked)
        scored = score_candidates(candidates, work.profile, self._clock.now(), work.ranking_query)
        scored, low = keep_similar(scored, work.query.threshold)
        scored, unread = keep_reranked(scored, work.profile)
        scored, irrelevant = keep_relevant(scored, work.profile)
        scored, over = cap_categories(scored, work.lengths)
        chosen, rest = select_best(scored, work.top_k, work.profile)
        work.answer.dropped = [*low, *unread, *irrelevant, *over, *rest]
        return chosen

    async def _add_items(self, tx: ReadTx, work: _QueryState, chosen: Sequence[ScoredCandidate]) -> None:
        """Add pinned categories, the chosen memories and the memories related to them, within the budget."""
        if not work.pinned_categories and not chosen:
            return
        most = self._policies.query.related
        loaded = await self._search.load_answer(
            tx,
            work.principal,
            work.search,
            whole=work.pinned_categories,
            whole_limit=self._policies.query.whole_limit,
            chosen=[s.candidate.id for s in chosen],
            related=most,
        )
        builder, related = work.builder, loaded.related
        builder.add_pinned_categories(loaded.whole, ranked=bool(work.lengths))
        builder.add_ranked(chosen, loaded.chosen)
        if answered := builder.answered_ids:
            if any(r.via not in answered for r in related):  # some belong to memories that did not fit: load again
                reloaded = await self._search.load_answer(
                    tx, work.principal, work.search, chosen=answered, related=most
                )
                related = reloaded.related
            builder.add_related(related)
        builder.fill_remaining()

    def _record_access(self, work: _QueryState) -> None:
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
        self._access.record_access(work.principal, work.builder.answered_ids, event)
