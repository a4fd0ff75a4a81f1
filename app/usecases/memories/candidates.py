"""The candidates of a query: found, and read together with the question by a reranker that does so.

Such a reranker may take as long as a model takes, so it is asked between two transactions: one finds the candidates, a
later one answers, of them, what may still be answered then.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from app.domain.filters import Filters
from app.domain.scope import Scope
from app.domain.scoring import Asked, Candidate, Profile, keep_similar, score
from app.ports import Clock, Reranker
from app.storage.search import Search, SearchStorage
from app.storage.uow import ReadTx
from app.storage.visible import VisibleStorage


class Candidates:
    """Finds, reads and looks after them."""

    def __init__(self, search: SearchStorage, visible: VisibleStorage, reranker: Reranker, clock: Clock) -> None:
        self._search = search
        self._visible = visible
        self._reranker = reranker
        self._clock = clock

    async def find(
        self, tx: ReadTx, scope: Scope, search: Search, lengths: Mapping[str, int], wanted: int
    ) -> list[Candidate]:
        """Candidates for every slot: where a full category crowds the others out, the others are asked again.

        `lengths`: how many of each category may be answered, `wanted`: how many in all.
        """
        found: dict[UUID, Candidate] = {}
        categories = list(lengths)
        while categories:
            for candidate in await self._search.candidates(tx, scope, _narrowed(search, categories)):
                found[candidate.memory.id] = candidate
            taken = Counter(c.memory.category for c in found.values())
            full = {c for c in categories if taken[c] >= lengths[c]}
            if not full or sum(min(count, lengths[c]) for c, count in taken.items()) >= wanted:
                break
            categories = [c for c in categories if c not in full]
        return list(found.values())

    def to_be_read(self, profile: Profile, top_k: int) -> bool:
        """Whether a reranker is to read the best of them, outside any transaction."""
        return self._reranker.reads_texts and profile.reranked(top_k) > 0

    async def read(
        self, found: Sequence[Candidate], profile: Profile, asked: Asked, top_k: int, threshold: float | None
    ) -> list[Candidate]:
        """The same, the best of them with the reranker's score. Raises RerankerUnavailable."""
        kept, _ = keep_similar(score(found, profile, self._clock.now(), asked), threshold)
        best = [s.candidate.memory for s in kept[: profile.reranked(top_k)]]
        logits = await self._reranker.score(asked.text, [memory.text for memory in best])
        read = {memory.id: logit for memory, logit in zip(best, logits, strict=True)}
        return [replace(c, rerank=read.get(c.memory.id)) for c in found]

    async def still_visible(
        self, tx: ReadTx, scope: Scope, filters: Filters, categories: Sequence[str], found: Sequence[Candidate]
    ) -> list[Candidate]:
        """Those that may still be answered, as they are now."""
        now = await self._visible.still(tx, scope, filters, categories, [c.memory.id for c in found])
        return [replace(c, memory=now[c.memory.id]) for c in found if c.memory.id in now]


def _narrowed(search: Search, categories: Sequence[str]) -> Search:
    if len(categories) == len(search.categories):
        return search
    return replace(search, categories=tuple(categories))
