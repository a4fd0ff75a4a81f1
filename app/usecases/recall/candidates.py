"""Candidates of a query: search, reranking and a last check that they are still visible.

A reranker may take as long as a model takes. It runs between two transactions: the first finds the candidates, the
second answers with those that are still visible.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from app.domain.memory.memory import Memory, MemoryType
from app.domain.principal import Principal
from app.domain.recall.candidates import Candidate
from app.domain.recall.profiles import RankingProfile, RankingQuery
from app.domain.recall.relevance import RelevanceModel
from app.domain.recall.scoring import ScoredCandidate, score_candidates
from app.domain.recall.selection import keep_similar
from app.ports import Clock, Reranker
from app.storage.recall.search import Recalled, Search, SearchStorage
from app.storage.uow import ReadTx


class Candidates:
    """The search for candidates and the reranker's scores of them."""

    def __init__(
        self, search: SearchStorage, reranker: Reranker, relevance: Sequence[RelevanceModel | None], clock: Clock
    ) -> None:
        """Keep what ranking needs. The first model in `relevance` serves the profiles that no model names."""
        self._search = search
        self._relevance = relevance
        self._reranker = reranker
        self._clock = clock

    async def find_candidates(
        self, tx: ReadTx, principal: Principal, search: Search, lengths: Mapping[str, int], wanted: int
    ) -> Recalled:
        """Return candidates for every slot. Search again without the categories that fill the result alone.

        `lengths` is the maximum number of answers by category, `wanted` the number in all. Chunks have slots of their
        own, and the first search finds them all.
        """
        candidates: list[Candidate] = []
        has_instructions = True
        categories = list(lengths)
        while categories or search.chunks:
            more, has_instructions = await self._search.recall(tx, principal, _narrow_search(search, categories))
            candidates = list({c.id: c for c in (*candidates, *more)}.values()) if candidates else more
            taken = Counter(c.category for c in candidates if c.type != MemoryType.chunk)
            full = {c for c in categories if taken[c] >= lengths[c]}
            if not full or sum(min(count, lengths[c]) for c, count in taken.items()) >= wanted:
                break
            categories = [c for c in categories if c not in full]
            search = replace(search, chunks=0)
        return Recalled(candidates, has_instructions)

    def score_candidates(
        self, candidates: Sequence[Candidate], profile: RankingProfile, query: RankingQuery
    ) -> list[ScoredCandidate]:
        """Return the candidates with their scores, best first."""
        own = (model for model in self._relevance if model is not None and profile.name in model.profiles)
        return score_candidates(
            candidates, profile, query.as_of or self._clock.now(), query, next(own, self._relevance[0])
        )

    def needs_reranking(self, profile: RankingProfile, top_k: int) -> bool:
        """Return True if a reranker must read the best candidates, outside any transaction."""
        return self._reranker.reads_texts and profile.rerank_count(top_k) > 0

    def best_ids(
        self,
        candidates: Sequence[Candidate],
        profile: RankingProfile,
        query: RankingQuery,
        top_k: int,
        threshold: float | None,
    ) -> list[UUID]:
        """Return the ids of the candidates that the reranker must read, best first."""
        similar, _ = keep_similar(self.score_candidates(candidates, profile, query), threshold)
        return [s.candidate.id for s in similar[: profile.rerank_count(top_k)]]

    async def rerank_best(
        self, candidates: Sequence[Candidate], query: RankingQuery, best: Sequence[Memory]
    ) -> list[Candidate]:
        """Return `candidates` with the reranker's score (a logit) on those in `best`. Raise RerankerUnavailable."""
        logits = await self._reranker.score_texts(query.text, [memory.text for memory in best])
        logit_by_id = {memory.id: logit for memory, logit in zip(best, logits, strict=True)}
        return [c._replace(rerank=logit_by_id.get(c.id)) for c in candidates]

    async def keep_visible(
        self, tx: ReadTx, principal: Principal, search: Search, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return the candidates that the principal may still see."""
        visible = (await self._search.load_answer(tx, principal, search, chosen=[c.id for c in candidates])).chosen
        return [c for c in candidates if c.id in visible]


def _narrow_search(search: Search, categories: Sequence[str]) -> Search:
    if len(categories) == len(search.categories):
        return search
    if not categories:
        return replace(search, categories=(), dense=0, lexical=0, beside=0, with_strengths=False)
    return replace(search, categories=tuple(categories))
