"""memory.query: the memories that an agent needs for a question, within its budget, and the thread's delta header."""

import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from app.config.loader import Policies
from app.config.tenant_policies import TenantPolicies
from app.domain.principal import Principal
from app.domain.recall.arrangement import arrange_answer
from app.domain.recall.delta_header import shown_entries
from app.domain.recall.instructions import leave_out_repeats
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.token_budget import TokenBudget
from app.ports import TokenCounter
from app.storage.access_log import AccessLog
from app.storage.recall.delta import DeltaStorage
from app.storage.recall.search import Related, SearchStorage
from app.storage.uow import ReadTx, UnitOfWork, WriteTx
from app.usecases.facts.answer import AnswerFacts
from app.usecases.recall.answer import Answer, AnswerBuilder, LineEnding
from app.usecases.recall.chunks import FindChunks
from app.usecases.recall.delta import ReadDelta
from app.usecases.recall.hidden import FindHidden
from app.usecases.recall.instructions import FindInstructions
from app.usecases.recall.ranking import RankMemories
from app.usecases.recall.receipt import leave_receipt
from app.usecases.recall.request import Query, QueryState

RELATED_READ = 5
"""Related memories read for each one that is answered; the question decides between them."""


class QueryMemories:
    """The use-case behind the HTTP route and the MCP tool `memory.query`."""

    def __init__(
        self,
        uow: UnitOfWork,
        search: SearchStorage,
        chunks: FindChunks,
        ranks: RankMemories,
        delta: ReadDelta,
        cursors: DeltaStorage,
        tokens: TokenCounter,
        access: AccessLog,
        facts: AnswerFacts,
        instructions: FindInstructions,
        hidden: FindHidden,
        policies: TenantPolicies,
    ) -> None:
        self._hidden = hidden
        self._uow = uow
        self._search = search
        self._chunks = chunks
        self._ranks = ranks
        self._delta = delta
        self._cursors = cursors
        self._tokens = tokens
        self._access = access
        self._facts = facts
        self._instructions = instructions
        self._policies = policies

    async def answer_query(self, principal: Principal, query: Query) -> Answer:
        """Answer `query`. Raise AgentNotAllowed, UnknownAgent, CategoryNotAllowed or InvalidInput.

        Without the embedder the answer is lexical, without the reranker it is not reranked; `degraded` then has the
        error's code.
        """
        started = time.perf_counter()
        policies = self._policies.of(principal)
        agent = policies.categories.choose_agent(principal, query.agent, policies.query.agent)
        work = await self._prepare_query(principal.speaking_as(agent), agent, query)
        await self._add_fact_answer(work)
        reranked = await self._ranks.rerank_candidates(work.ranking)
        async with self._open_transaction(work) as tx:
            await self._add_delta(tx, work)
            await self._add_items(tx, work, await self._ranks.choose_ranked(tx, work.ranking, reranked))
            await self._add_chunks(tx, work)
        answer = work.finish_answer()
        if query.explain:
            answer.hidden = await self._hidden.find_hidden(work)
        scores = [item.scored for item in answer.items]
        self._access.record_access(
            work.ranking.principal, work.builder.answered_ids, work.ranking.observe_search(scores)
        )
        if self._policies.of(work.ranking.principal).query.receipts:
            answer.query_id = leave_receipt(self._access, work)
        answer.took_ms = round((time.perf_counter() - started) * 1000, 2)
        return answer

    async def _prepare_query(self, principal: Principal, agent: str, query: Query) -> QueryState:
        policies = self._policies.of(principal)
        categories = policies.categories.resolve_categories(principal, agent, query.categories, query.filters.category)
        known = {name: policies.categories.get_category(name) for name in categories}
        lengths = {name: category.rag_length for name, category in known.items() if category.context == "rag"}
        slots = policies.sources.answer_chunks
        request = replace(query, threshold=_least_cosine(policies, query.threshold))
        today = sorted(policies.categories.agent_categories(principal, agent))
        ranking = await self._ranks.prepare_ranking(principal, request, categories, lengths, chunks=slots, today=today)
        answer = Answer()
        ending = LineEnding(
            dated=not query.full and (policies.query.dates if query.dates is None else query.dates),
            identified=query.identified,
        )
        # The end of a line is no evidence, so it may not take its place.
        default = policies.query.budget_tokens + ending.tokens * ranking.limits.top_k
        budget = TokenBudget(query.budget_tokens or default)
        builder = AnswerBuilder(
            answer, budget, self._tokens, policies.categories.tag_names, full=query.full, ending=ending
        )
        return QueryState(agent, query, ranking, [name for name in categories if name not in lengths], answer, builder)

    async def _add_fact_answer(self, work: QueryState) -> None:
        """Answer a question about the user's facts, if the query is one and the agent may see facts."""
        query = work.query
        ranking = work.ranking
        category = self._policies.of(ranking.principal).facts.category
        if query.filters.user_id is not None and category in ranking.search.categories:
            asked = query.filters.user_id, query.thread_id, query.query, query.moments
            work.builder.add_fact_answer(await self._facts.find_answer(ranking.principal, *asked))

    def _open_transaction(self, work: QueryState) -> AbstractAsyncContextManager[ReadTx]:
        """Open a transaction only if the query names a thread: its cursor must fit what is read.

        The transaction is read-write only if the cursor may move.
        """
        principal = work.ranking.principal
        if not work.query.has_delta:
            return self._uow.calls_anywhere(principal)
        return self._uow.write(principal) if work.query.since_rev is None else self._uow.read_anywhere(principal)

    async def _add_delta(self, tx: ReadTx, work: QueryState) -> None:
        query = work.query
        principal = work.ranking.principal
        if query.thread_id is None or not query.has_delta:
            return
        viewer = (
            work.agent,
            self._policies.of(principal).categories.delta_categories(principal, work.agent),
            query.filters.user_id,
        )
        delta = await self._delta.read_in_transaction(tx, principal, query.thread_id, query.since_rev, *viewer)
        header = work.builder.add_header(delta.header)
        work.bullets = shown_entries(delta.entries, header.shown) if header else []
        work.answer.delta = {
            "since_rev": delta.since_rev,
            "rev": delta.rev,
            "more": delta.more + (delta.header.shown if delta.header else 0) - (header.shown if header else 0),
            "truncated": delta.truncated,
        }
        if header is not None and isinstance(tx, WriteTx):
            await self._cursors.advance_cursor(
                tx, principal, query.thread_id, work.agent, delta.rev, query.filters.user_id
            )

    async def _add_items(self, tx: ReadTx, work: QueryState, chosen: Sequence[ScoredCandidate]) -> None:
        """Add instructions, pinned categories, the chosen memories and those related to them, within the budget."""
        applied = await self._instructions.find_applying(tx, work.ranking.principal, work.ranking)
        chosen = leave_out_repeats(chosen, applied)
        if not work.pinned_categories and not chosen and not applied:
            return
        policy = self._policies.of(work.ranking.principal).query
        most = policy.related * RELATED_READ
        loaded = await self._search.load_answer(
            tx,
            work.ranking.principal,
            work.ranking.search,
            whole=work.pinned_categories,
            whole_limit=policy.whole_limit,
            chosen=[*(s.candidate.id for s in chosen), *(one.id for one in applied)],
            related=most,
            first=work.ranking.limits.top_k,
        )
        items, dropped = arrange_answer(chosen, loaded.chosen, work.ranking.query.text, work.ranking.limits)
        work.ranking.dropped += dropped
        work.builder.add_instructions(applied, loaded.chosen, work.ranking.ranked)
        work.builder.add_pinned_categories(loaded.whole, ranked=bool(work.ranking.lengths))
        work.builder.add_ranked(items, loaded.chosen)
        told = work.builder.instruction_ids
        work.ranking.dropped = [one for one in work.ranking.dropped if one.scored.candidate.id not in told]
        related = await self._find_related(tx, work, loaded.related, most) if work.query.moments.is_now else []
        work.builder.add_related(related, work.ranking.ranked, policy.related)
        work.builder.fill_remaining()

    async def _add_chunks(self, tx: ReadTx, work: QueryState) -> None:
        """Add the chosen chunks, behind all memories and within their share of the budget."""
        policy = self._policies.of(work.ranking.principal).sources
        reach = work.query.neighbours
        found = await self._chunks.load_chosen(tx, work.ranking, reach)
        work.builder.add_chunks(found, reach, policy.answer_chunks, policy.answer_share)

    async def _find_related(
        self, tx: ReadTx, work: QueryState, related: Sequence[Related], most: int
    ) -> Sequence[Related]:
        """Return the memories related to relevant items of the answer; read them again if others took their places."""
        ranking = work.ranking
        answered = work.builder.relevant_ids(ranking.limits)
        found = [r for r in related if r.via in answered]
        wanted = self._policies.of(ranking.principal).query.related
        if not answered or len(found) == len(related) or len(found) >= wanted:
            return found
        again = await self._search.load_answer(tx, ranking.principal, ranking.search, chosen=answered, related=most)
        return again.related


def _least_cosine(policies: Policies, threshold: float | None) -> float | None:
    """Return the cosine that a request's threshold stands for. Without a calibration of the model it is the cosine."""
    if threshold is None or policies.relevance is None:
        return threshold
    return policies.relevance.least_cosine(threshold)
