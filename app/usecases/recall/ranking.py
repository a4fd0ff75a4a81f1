"""Ranking for a caller: candidates → signals → fusion → selection, for memory.query and for the search with citations.

A ranking is prepared before any transaction, because it embeds the text. A reranker reads between two transactions.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Protocol
from uuid import UUID

from app.config.loader import Policies
from app.config.tenant_policies import TenantPolicies
from app.domain.changes import Observation
from app.domain.errors import InvalidInput
from app.domain.filters import Conditions, Filters
from app.domain.memory.memory import Memory, MemoryType
from app.domain.memory.moments import Moments
from app.domain.outages import EmbedderUnavailable, RerankerUnavailable
from app.domain.principal import Principal
from app.domain.recall.arrangement import AnswerLimits
from app.domain.recall.candidates import Candidate
from app.domain.recall.overviews import find_topic
from app.domain.recall.profiles import RankingProfile, RankingQuery, profile_name
from app.domain.recall.relevance import LeastRelevance
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import (
    DroppedCandidate,
    cap_categories,
    keep_relevant,
    keep_reranked,
    keep_similar,
    select_best,
)
from app.domain.text_rules import normalise_text
from app.ports import Clock, Embedder, Embedding
from app.storage.recall.chunks import ChunkReader
from app.storage.recall.search import Search, SearchStorage
from app.storage.uow import ReadTx, UnitOfWork
from app.usecases.recall.candidates import Candidates
from app.usecases.recall.repeats import SEARCHES, SortedOut, SortOutRepeats
from app.usecases.recall.slots import ChunkSlots, choose_chunks, split_chunks


class RankedRequest(Protocol):
    """The fields of a request that ranking reads. None means the default of the configuration."""

    @property
    def query(self) -> str:
        """The text to rank for."""
        ...

    @property
    def filters(self) -> Filters:
        """The conditions on memories."""
        ...

    @property
    def left_out(self) -> Conditions:
        """Further conditions on memories."""
        ...

    @property
    def top_k(self) -> int | None:
        """The number of items wanted."""
        ...

    @property
    def profile(self) -> str | None:
        """The name of the ranking profile."""
        ...

    @property
    def threshold(self) -> float | None:
        """The minimum cosine similarity; None: no minimum."""
        ...

    @property
    def min_relevance(self) -> float | None:
        """The minimum relevance of an item."""
        ...

    @property
    def thread_id(self) -> str | None:
        """The thread that decides near ties."""
        ...

    @property
    def moments(self) -> Moments:
        """The times that the text asks about."""
        ...

    @property
    def zone(self) -> tzinfo:
        """The time zone of times that the text names."""
        ...


@dataclass(slots=True)
class Ranking:
    """The state of one ranking.

    `lengths`: the maximum number of candidates by ranked category. `ranked`: all candidates, best first. `dropped`:
    those that ranked too low. `degraded`: the code of an unavailable model. `answerable`: the probability that any
    candidate helps to answer; None if it is not known. `chunks`: the slots of chunks; None if no chunk is searched for.
    `has_instructions`: False if the search has seen that the user has no standing instruction.
    """

    principal: Principal
    search: Search
    profile: RankingProfile
    query: RankingQuery
    threshold: float | None
    lengths: dict[str, int]
    limits: AnswerLimits
    degraded: str | None = None
    ranked: list[ScoredCandidate] = field(default_factory=list)
    dropped: list[DroppedCandidate] = field(default_factory=list)
    answerable: float | None = None
    chunks: ChunkSlots | None = None
    has_instructions: bool = True

    def observe_search(self, items: Sequence[ScoredCandidate | None]) -> Observation:
        """Return the event that counts this search. `items` are the scores of what was answered."""
        similarities = [scored.candidate.similarity for scored in items if scored is not None]
        return Observation(
            node="context",
            op="search",
            status="ok" if self.degraded is None else "error",
            user_id=self.search.filters.user_id,
            thread_id=self.query.thread_id,
            category=self.search.categories[0] if len(self.search.categories) == 1 else None,
            sim=max((s for s in similarities if s is not None), default=None),
        )


FindCandidates = Callable[[ReadTx, Ranking], Awaitable[list[Candidate]]]
"""A search for the candidates of a ranking."""


class RankMemories:
    """The stages of a ranking. A use-case calls them in the order of their definitions."""

    def __init__(
        self,
        uow: UnitOfWork,
        search: SearchStorage,
        chunks: ChunkReader,
        candidates: Candidates,
        embedder: Embedder,
        policies: TenantPolicies,
        clock: Clock,
    ) -> None:
        self._uow = uow
        self._search = search
        self._chunks = chunks
        self._candidates = candidates
        self._embedder = embedder
        self._policies = policies
        self._clock = clock
        self._repeats = SortOutRepeats(search, clock)

    async def prepare_ranking(
        self,
        principal: Principal,
        request: RankedRequest,
        categories: Sequence[str],
        lengths: dict[str, int],
        profile: RankingProfile | None = None,
        chunks: int = 0,
        today: Sequence[str] = (),
    ) -> Ranking:
        """Return the ranking of `request` in `categories`. Only those in `lengths` are ranked.

        `profile` replaces the profile that the request names. `chunks`: the most chunks in the answer, of
        all `categories`; none is searched for if nothing is ranked, or if the request is about another time. `today`:
        the categories that a memory may have now, if the request is about another time. Raise InvalidInput for an empty
        text and an unknown profile, AsOfNeedsUser or AsOfInFuture. Without the embedder the ranking is lexical.
        """
        moments = request.moments
        moments.require_user(request.filters.user_id)
        moments.require_past(self._clock.now())
        policies = self._policies.of(principal)
        if not (text := normalise_text(request.query)):
            raise InvalidInput("query is empty")
        profile = profile or _named_profile(policies, request)
        lengths, slots = _open_slots(policies, request, lengths, chunks if moments.is_now else 0)
        topic = find_topic(text)
        words = topic.text if topic else text
        embedding, degraded = await self._embed_query(words) if lengths or slots else (None, None)
        top_k = request.top_k or policies.query.top_k
        search = _build_search(policies, request, words, embedding, profile, slots)
        search = replace(search, categories=tuple(categories), chunk_categories=tuple(categories) if slots else ())
        search = replace(search, spoken=topic.language) if topic else search
        search = search if moments.is_now else replace(search, today=tuple(today))
        query = RankingQuery(
            text,
            tokens=embedding.tokens if embedding else None,
            words=embedding.words if embedding else (),
            zone=request.zone,
            thread_id=request.thread_id,
            as_of=moments.as_of,
            topic=topic,
        )
        compared = policies.relevance is not None and profile.name in policies.relevance.profiles
        limits = AnswerLimits(top_k, {c: _least_relevance(policies, request, profile, c) for c in lengths}, compared)
        return Ranking(principal, search, profile, query, request.threshold, lengths, limits, degraded, chunks=slots)

    async def _embed_query(self, text: str) -> tuple[Embedding | None, str | None]:
        """Return the text's embedding and None, or None and the code of the embedder's error."""
        try:
            return await self._embedder.encode_query(text), None
        except EmbedderUnavailable as error:
            return None, error.code

    async def rerank_candidates(self, ranking: Ranking, find: FindCandidates | None = None) -> list[Candidate] | None:
        """Return the reranked candidates, None if nothing needs reranking. No transaction is open meanwhile.

        `find` replaces the search for candidates.
        """
        top_k = ranking.limits.top_k
        slots = ranking.chunks
        if (not ranking.lengths and not slots) or not self._candidates.needs_reranking(ranking.profile, top_k):
            return None
        async with self._uow.calls_anywhere(ranking.principal) as tx:
            candidates = (await self._find_sorted(tx, ranking, find)).kept
            best = self._candidates.best_ids(candidates, ranking.profile, ranking.query, top_k, ranking.threshold)
            loaded = (await self._search.load_answer(tx, ranking.principal, ranking.search, chosen=best)).chosen
            texts = list(loaded.values()) + await self._load_best_chunks(tx, ranking)
        try:
            reranked = await self._candidates.rerank_best(
                [*candidates, *(slots.candidates if slots else ())], ranking.query, texts
            )
            return split_chunks(reranked, slots)
        except RerankerUnavailable as error:
            ranking.degraded = ranking.degraded or error.code
            return candidates

    async def choose_ranked(
        self, tx: ReadTx, ranking: Ranking, reranked: list[Candidate] | None, find: FindCandidates | None = None
    ) -> list[ScoredCandidate]:
        """Return the best of the ranked categories, some more than `top_k`; list the others as dropped.

        `find` replaces the search for candidates.
        """
        if not ranking.lengths and not ranking.chunks:
            return []
        if reranked is None:
            candidates, repeats, copies = await self._find_sorted(tx, ranking, find)
        else:
            ranking.has_instructions = True  # the search was in an earlier transaction
            visible = await self._candidates.keep_visible(tx, ranking.principal, ranking.search, reranked)
            candidates, repeats, copies = await self._sort_out(tx, ranking, visible)
        profile = ranking.profile
        top_k = ranking.limits.top_k
        scored = self._candidates.score_candidates(candidates, profile, ranking.query)
        ranking.ranked = scored
        ranking.answerable = scored[0].answerable if scored else None
        scored, low = keep_similar(scored, ranking.threshold)
        scored, unread = keep_reranked(scored, profile)
        scored, irrelevant = keep_relevant(scored, profile)
        scored, over = cap_categories(scored, ranking.lengths)
        chosen, rest = select_best(scored, top_k + profile.spare_candidates, profile)
        asked = [DroppedCandidate(s, "question") for s in self._score_dropped(repeats, ranking)]
        said = [DroppedCandidate(s, "duplicate") for s in self._score_dropped(copies, ranking)]
        ranking.dropped = [*asked, *said, *low, *unread, *irrelevant, *over, *rest]
        self._choose_chunks(ranking)
        return chosen

    async def _sort_out(self, tx: ReadTx, ranking: Ranking, found: Sequence[Candidate]) -> SortedOut:
        return await self._repeats.sort_out(tx, ranking.principal, ranking.search, ranking.query, found)

    def _score_dropped(self, dropped: Sequence[Candidate], ranking: Ranking) -> list[ScoredCandidate]:
        return self._candidates.score_candidates(dropped, ranking.profile, ranking.query) if dropped else []

    def _choose_chunks(self, ranking: Ranking) -> None:
        slots = ranking.chunks
        if slots is None or not slots.candidates:
            return
        scored = self._candidates.score_candidates(slots.candidates, slots.profile, ranking.query)
        known = [one for one in (ranking.answerable, scored[0].answerable) if one is not None]
        ranking.answerable = max(known, default=None)
        ranking.dropped += choose_chunks(slots, scored, ranking.threshold)

    async def _load_best_chunks(self, tx: ReadTx, ranking: Ranking) -> list[Memory]:
        """Return the chunks that the reranker must read."""
        if (slots := ranking.chunks) is None or not slots.candidates:
            return []
        best = self._candidates.best_ids(slots.candidates, slots.profile, ranking.query, slots.most, ranking.threshold)
        loaded = await self._chunks.load_chunks(tx, ranking.principal, ranking.search, best)
        return [chunk.memory for chunks in loaded.values() for chunk in chunks]

    async def _find_sorted(self, tx: ReadTx, ranking: Ranking, find: FindCandidates | None) -> SortedOut:
        """Return the candidates without repeats. Search again if these took too many places.

        `find` replaces the search.
        """
        if find is not None:
            return await self._sort_out(tx, ranking, await find(tx, ranking))
        found: dict[UUID, Candidate] = {}
        search = ranking.search
        principal = ranking.principal
        for at in range(SEARCHES):
            more, ranking.has_instructions = await self._candidates.find_candidates(
                tx, principal, search, ranking.lengths, ranking.limits.top_k
            )
            if at == 0:
                more = split_chunks(more, ranking.chunks)
            found |= {c.id: c for c in more}
            sorted_out = await self._repeats.sort_out(tx, principal, search, ranking.query, more)
            if (following := self._repeats.next_search(search, sorted_out)) is None:
                break
            search = following
        return sorted_out if at == 0 else await self._sort_out(tx, ranking, list(found.values()))


def _build_search(
    policies: Policies,
    request: RankedRequest,
    text: str,
    embedding: Embedding | None,
    profile: RankingProfile,
    slots: ChunkSlots | None,
) -> Search:
    """Return the search of a ranking, without its categories."""
    policy = policies.query
    late = profile.reads_words or (slots is not None and slots.profile.reads_words)
    top_k = request.top_k or policy.top_k
    return Search(
        filters=request.filters,
        left_out=request.left_out,
        categories=(),
        text=text,
        vector=embedding.vector if embedding else None,
        dense=max(profile.dense_candidates, profile.pool * top_k),
        lexical=profile.lexical_candidates,
        with_vectors=profile.mmr_lambda < 1.0,
        with_strengths=profile.relation != 0,
        with_tokens=late and embedding is not None and bool(embedding.tokens),
        beside=profile.neighbour_candidates,
        exact=policy.exact_up_to,
        chunks=slots.profile.dense_candidates if slots else 0,
        moments=request.moments,
    )


def _open_slots(
    policies: Policies, request: RankedRequest, lengths: dict[str, int], chunks: int
) -> tuple[dict[str, int], ChunkSlots | None]:
    """Return the categories to rank, none if the request is for chunks alone, and the slots of chunks, if any."""
    types = (request.filters.row_conditions() | request.left_out).get("type")
    wanted = {types} if isinstance(types, str) else set(types or MemoryType)
    if not lengths or not chunks or MemoryType.chunk not in wanted:
        return lengths, None
    named = request.profile or policies.sources.profile
    own = policies.sources.min_relevance
    least = own if request.min_relevance is None else request.min_relevance
    slots = ChunkSlots(policies.profiles[profile_name(named)], chunks, least)
    return ({} if wanted == {MemoryType.chunk} else lengths), slots


def _named_profile(policies: Policies, request: RankedRequest) -> RankingProfile:
    profiles = policies.profiles
    if (profile := profiles.get(profile_name(request.profile or policies.query.profile))) is None:
        raise InvalidInput(f"unknown profile {request.profile!r}; use one of: {', '.join(profiles)}")
    return profile


def _least_relevance(
    policies: Policies, request: RankedRequest, profile: RankingProfile, category: str
) -> LeastRelevance:
    """Return the request's limit, or else that of the category, of the configuration, or of the embedding model.

    A profile with a `score_threshold` of its own has no other limit than the request's.
    """
    if request.min_relevance is not None or profile.score_threshold is not None:
        least = request.min_relevance or 0.0
        return LeastRelevance(least, least)
    known = policies.categories.categories.get(category)
    own = known.min_relevance if known else None
    own = policies.query.min_relevance if own is None else own
    if own is not None:
        return LeastRelevance(own, own)
    return policies.relevance.least if policies.relevance else LeastRelevance()
