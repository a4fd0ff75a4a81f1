"""Turns that repeat the query or each other: the stage between the search for candidates and their scores.

They match best and answer nothing, or nothing more. So they must be gone before scores are standardised, and the search
must reach past them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.domain.recall.candidates import Candidate
from app.domain.recall.profiles import RankingQuery
from app.domain.recall.selection import (
    asks_about_times,
    find_alike,
    find_copies,
    find_doubtful,
    is_loose_turn,
    says_again,
    set_aside_repeats,
)
from app.domain.recall.time_spans import find_spans
from app.ports import Clock
from app.storage.recall.search import Search, SearchStorage
from app.storage.uow import ReadTx

SEARCHES: Final = 4
"""The most searches of one query. Each one leaves out the repeats that the ones before it found."""
FEW_REPEATS: Final = 0.25
"""A search runs again if repeats took more than this share of its places."""


class SortedOut(NamedTuple):
    """Candidates: `kept`, the `repeats` of the query, and `copies` of turns that are kept."""

    kept: list[Candidate]
    repeats: list[Candidate]
    copies: list[Candidate]


class SortOutRepeats:
    """The stage that takes turns without a place in their thread out of the candidates, if they repeat something."""

    def __init__(self, search: SearchStorage, clock: Clock) -> None:
        self._search = search
        self._clock = clock

    async def sort_out(
        self, tx: ReadTx, principal: Principal, search: Search, query: RankingQuery, found: Sequence[Candidate]
    ) -> SortedOut:
        """Sort the candidates. Texts are read only of turns whose vectors are those of the query or of each other."""
        if not any(map(is_loose_turn, found)):
            return SortedOut(list(found), [], [])
        kept, repeats = set_aside_repeats(found, query)
        doubtful = find_doubtful(kept, query)
        alike = find_alike(kept) if principal.reach(search.filters.user_id) is not None else []  # else of several users
        if not doubtful and not alike:
            return SortedOut(kept, repeats, [])
        ids = {c.id for group in (doubtful, *alike) for c in group}
        loaded = await self._search.load_answer(tx, principal, search, chosen=list(ids))
        texts = {id_: memory.text for id_, memory in loaded.chosen.items()}
        again = {c.id for c in doubtful if c.id in texts and says_again(texts[c.id], query.text, assistant=c.assistant)}
        copies = find_copies(_split_by_role(alike, loaded.chosen), texts, query.thread_id) - again
        if copies and self._asks_about_times(query):
            copies = set()
        return SortedOut(
            [c for c in kept if c.id not in again | copies],
            [*repeats, *(c for c in kept if c.id in again)],
            [c for c in kept if c.id in copies],
        )

    def _asks_about_times(self, query: RankingQuery) -> bool:
        """Tell whether each time at which something was said may count: the newest was said at one of them alone."""
        if query.topic is not None and query.topic.ordered:
            return True
        now = query.as_of or self._clock.now()
        return asks_about_times(query.text) or bool(find_spans(query.text, now, query.zone))

    def next_search(self, search: Search, found: SortedOut) -> Search | None:
        """Return the search without the repeats of the last one, or None if they took few of its places."""
        gone = [*found.repeats, *found.copies]
        if len(gone) <= FEW_REPEATS * search.dense or len(gone) + len(found.kept) < search.dense:
            return None  # or it found everything
        left_out = search.left_out.copy()
        left_out["exclude_ids"] = [*left_out.get("exclude_ids", ()), *(str(c.id) for c in gone)]
        return replace(search, left_out=left_out, chunks=0)


def _split_by_role(groups: Iterable[Sequence[Candidate]], memories: Mapping[UUID, Memory]) -> list[list[Candidate]]:
    """Split groups of turns so that all turns of one have the same role. Turns that are gone are left out."""
    parts: dict[tuple[int, str | None], list[Candidate]] = {}
    for number, group in enumerate(groups):
        for turn in group:
            if (memory := memories.get(turn.id)) is not None:
                parts.setdefault((number, memory.role), []).append(turn)
    return list(parts.values())
