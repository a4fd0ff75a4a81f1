"""memory.query: candidates → signals → fusion → selection → budget, and the thread's delta header."""

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from app.config.loader import Policies
from app.domain.changes import Observation
from app.domain.errors import InvalidInput
from app.domain.outages import EmbedderUnavailable, RerankerUnavailable
from app.domain.principal import Principal
from app.domain.recall.arrangement import AnswerLimits, arrange_answer
from app.domain.recall.candidates import Candidate
from app.domain.recall.profiles import RankingProfile, RankingQuery
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import cap_categories, keep_relevant, keep_reranked, keep_similar, select_best
from app.domain.recall.token_budget import TokenBudget
from app.domain.text_rules import normalise_text
from app.ports import Embedder, Embedding, TokenCounter
from app.storage.access_log import AccessLog
from app.storage.recall.delta import DeltaStorage
from app.storage.recall.search import Related, Search, SearchStorage
from app.storage.uow import ReadTx, UnitOfWork, WriteTx
from app.usecases.facts.answer import AnswerFacts
from app.usecases.recall.answer import Answer, AnswerBuilder
from app.usecases.recall.candidates import Candidates
from app.usecases.recall.delta import ReadDelta
from app.usecases.recall.request import Query, QueryState

RELATED_READ = 5
"""Related memories read for each one that is answered; the question decides between them."""


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
        facts: AnswerFacts,
        policies: Policies,
    ) -> None:
        self._uow = uow
        self._search = search
        self._candidates = candidates
        self._delta = delta
        self._cursors = cursors
        self._embedder = embedder
        self._tokens = tokens
        self._access = access
        self._facts = facts
        self._policies = policies

    async def answer_query(self, principal: Principal, query: Query) -> Answer:
        """Answer `query`. Raise AgentNotAllowed, UnknownAgent, CategoryNotAllowed or InvalidInput.

        Without the embedder the answer is lexical, without the reranker it is not reranked; `degraded` then has the
        error's code.
        """
        started = time.perf_counter()
        work = await self._prepare_query(principal.speaking_as(query.agent), query)
        await self._add_fact_answer(work)
        reranked = await self._rerank_candidates(work)
        async with self._open_transaction(work) as tx:
            await self._add_delta(tx, work)
            await self._add_items(tx, work, await self._choose_ranked(tx, work, reranked))
        answer = work.answer
        answer.tokens = work.builder.spent_tokens
        self._record_access(work)
        answer.took_ms = round((time.perf_counter() - started) * 1000, 2)
        return answer

    async def _prepare_query(self, principal: Principal, query: Query) -> QueryState:
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
            left_out=query.left_out,
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
        compared = policies.relevance is not None and profile.name in policies.relevance.profiles
        limits = AnswerLimits(top_k, {c: self._least_relevance(query, profile, c) for c in ranked}, compared)
        return QueryState(principal, query, search, profile, ranking_query, pinned, lengths, limits, answer, builder)

    async def _add_fact_answer(self, work: QueryState) -> None:
        """Answer a question about the user's facts, if the query is one and the agent may see facts."""
        query, category = work.query, self._policies.facts.category
        if query.filters.user_id is not None and category in work.search.categories:
            place = query.filters.user_id, query.thread_id
            work.builder.add_fact_answer(await self._facts.find_answer(work.principal, *place, query.query))

    def _least_relevance(self, query: Query, profile: RankingProfile, category: str) -> float:
        """Return the request's limit, or else that of the category or of the configuration.

        A profile with a `score_threshold` of its own has no other limit than the request's.
        """
        if query.min_relevance is not None or profile.score_threshold is not None:
            return query.min_relevance or 0.0
        own = self._policies.categories.get_category(category).min_relevance
        return self._policies.query.min_relevance if own is None else own

    async def _embed_query(self, text: str, answer: Answer) -> Embedding | None:
        try:
            return await self._embedder.encode_query(text)
        except EmbedderUnavailable as error:
            answer.degraded = error.code
            return None

    def _open_transaction(self, work: QueryState) -> AbstractAsyncContextManager[ReadTx]:
        """Open a transaction only if the query names a thread: its cursor must fit what is read.

        The transaction is read-write only if the cursor may move.
        """
        if work.query.thread_id is None:
            return self._uow.calls(work.principal)
        return self._uow.write(work.principal) if work.query.since_rev is None else self._uow.read(work.principal)

    async def _add_delta(self, tx: ReadTx, work: QueryState) -> None:
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

    async def _rerank_candidates(self, work: QueryState) -> list[Candidate] | None:
        """Return the reranked candidates, None if nothing needs reranking. No transaction is open meanwhile."""
        if not work.lengths or not self._candidates.needs_reranking(work.profile, work.limits.top_k):
            return None
        async with self._uow.calls(work.principal) as tx:
            candidates = await self._candidates.find_candidates(
                tx, work.principal, work.search, work.lengths, work.limits.top_k
            )
            best = self._candidates.best_ids(
                candidates, work.profile, work.ranking_query, work.limits.top_k, work.query.threshold
            )
            texts = (await self._search.load_answer(tx, work.principal, work.search, chosen=best)).chosen
        try:
            return await self._candidates.rerank_best(candidates, work.ranking_query, list(texts.values()))
        except RerankerUnavailable as error:
            work.answer.degraded = work.answer.degraded or error.code
            return candidates

    async def _choose_ranked(
        self, tx: ReadTx, work: QueryState, reranked: list[Candidate] | None
    ) -> list[ScoredCandidate]:
        """Return the best of the ranked categories, some more than `top_k`; list the others as dropped."""
        if not work.lengths:
            return []
        if reranked is None:
            candidates = await self._candidates.find_candidates(
                tx, work.principal, work.search, work.lengths, work.limits.top_k
            )
        else:
            candidates = await self._candidates.keep_visible(tx, work.principal, work.search, reranked)
        scored = self._candidates.score_candidates(candidates, work.profile, work.ranking_query)
        work.ranked = scored
        work.answer.answerable = max((s.relevance for s in scored if s.relevance is not None), default=None)
        scored, low = keep_similar(scored, work.query.threshold)
        scored, unread = keep_reranked(scored, work.profile)
        scored, irrelevant = keep_relevant(scored, work.profile)
        scored, over = cap_categories(scored, work.lengths)
        chosen, rest = select_best(scored, work.limits.top_k + work.profile.spare_candidates, work.profile)
        work.answer.dropped = [*low, *unread, *irrelevant, *over, *rest]
        return chosen

    async def _add_items(self, tx: ReadTx, work: QueryState, chosen: Sequence[ScoredCandidate]) -> None:
        """Add pinned categories, the chosen memories and the memories related to them, within the budget."""
        if not work.pinned_categories and not chosen:
            return
        most = self._policies.query.related * RELATED_READ
        loaded = await self._search.load_answer(
            tx,
            work.principal,
            work.search,
            whole=work.pinned_categories,
            whole_limit=self._policies.query.whole_limit,
            chosen=[s.candidate.id for s in chosen],
            related=most,
            first=work.limits.top_k,
        )
        items, dropped = arrange_answer(chosen, loaded.chosen, work.search.text, work.limits)
        work.answer.dropped += dropped
        work.builder.add_pinned_categories(loaded.whole, ranked=bool(work.lengths))
        work.builder.add_ranked(items, loaded.chosen)
        related = await self._find_related(tx, work, loaded.related, most)
        work.builder.add_related(related, work.ranked, self._policies.query.related)
        work.builder.fill_remaining()

    async def _find_related(
        self, tx: ReadTx, work: QueryState, related: Sequence[Related], most: int
    ) -> Sequence[Related]:
        """Return the memories related to relevant items of the answer; read them again if others took their places."""
        answered = work.builder.relevant_ids(work.limits)
        found = [r for r in related if r.via in answered]
        if not answered or len(found) == len(related) or len(found) >= self._policies.query.related:
            return found
        return (await self._search.load_answer(tx, work.principal, work.search, chosen=answered, related=most)).related

    def _record_access(self, work: QueryState) -> None:
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
