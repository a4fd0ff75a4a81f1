"""The candidates of a query: found, and read together with the question by a reranker that does so.

Such a reranker may take as long as a model takes, so it is asked between two transactions: one finds the candidates, a
later one answers, of them, what may still be answered then.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from uuid import UUID

from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.domain.recall.candidates import Candidate
from app.domain.recall.scoring import RankingProfile, RankingQuery, keep_similar, score_candidates
from app.ports import Clock, Reranker
from app.storage.recall.search import Search, SearchStorage
from app.storage.uow import ReadTx

_CATEGORY = attrgetter("category")


class Candidates:
    """Finds, reads and looks after them."""

    def __init__(self, search: SearchStorage, reranker: Reranker, clock: Clock) -> None:
        self._search = search
        self._reranker = reranker
        self._clock = clock

    async def find_candidates(
        self, tx: ReadTx, scope: Principal, search: Search, lengths: Mapping[str, int], wanted: int
    ) -> list[Candidate]:
        """Candidates for every slot: where a full category crowds the others out, the others are asked again.

        `lengths`: how many of each category may be answered, `wanted`: how many in all.
        """
        found: list[Candidate] = []
        categories = list(lengths)
        while categories:
            more = await self._search.find_candidates(tx, scope, _narrow_search(search, categories))
            found = list({c.id: c for c in (*found, *more)}.values()) if found else more
            taken = Counter(map(_CATEGORY, found))
            full = {c for c in categories if taken[c] >= lengths[c]}
            if not full or sum(min(count, lengths[c]) for c, count in taken.items()) >= wanted:
                break
            categories = [c for c in categories if c not in full]
        return found

    def needs_reranking(self, profile: RankingProfile, top_k: int) -> bool:
        """Whether a reranker is to read the best of them, outside any transaction."""
        return self._reranker.reads_texts and profile.rerank_count(top_k) > 0

    def best_ids(
        self,
        found: Sequence[Candidate],
        profile: RankingProfile,
        asked: RankingQuery,
        top_k: int,
        threshold: float | None,
    ) -> list[UUID]:
        """What the reranker is to read."""
        kept, _ = keep_similar(score_candidates(found, profile, self._clock.now(), asked), threshold)
        return [s.candidate.id for s in kept[: profile.rerank_count(top_k)]]

    async def rerank_best(
        self, found: Sequence[Candidate], asked: RankingQuery, best: Sequence[Memory]
    ) -> list[Candidate]:
        """The same, the best of them with the reranker's score. Raises RerankerUnavailable."""
        logits = await self._reranker.score_texts(asked.text, [memory.text for memory in best])
        read = {memory.id: logit for memory, logit in zip(best, logits, strict=True)}
        return [c._replace(rerank=read.get(c.id)) for c in found]

    async def keep_visible(
        self, tx: ReadTx, scope: Principal, search: Search, found: Sequence[Candidate]
    ) -> list[Candidate]:
        """Those that may still be answered."""
        now = (await self._search.load_answer(tx, scope, search, chosen=[c.id for c in found])).chosen
        return [c for c in found if c.id in now]


def _narrow_search(search: Search, categories: Sequence[str]) -> Search:
    if len(categories) == len(search.categories):
        return search
    return replace(search, categories=tuple(categories))
