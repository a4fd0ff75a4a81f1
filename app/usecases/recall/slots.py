"""The slots of chunks in an answer. Chunks are ranked apart, so that none takes the place of another memory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.profiles import RankingProfile
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import DroppedCandidate, keep_relevant, keep_reranked, keep_similar


@dataclass(slots=True)
class ChunkSlots:
    """The chunks of one ranking. At most `most` are answered, each with at least the relevance `least`.

    `candidates` are those of the search. `chosen` has the best, some more than `most`: a chunk may be gone, or part of
    another one's passage.
    """

    profile: RankingProfile
    most: int
    least: float
    candidates: list[Candidate] = field(default_factory=list)
    chosen: list[ScoredCandidate] = field(default_factory=list)


def split_chunks(found: Iterable[Candidate], slots: ChunkSlots | None) -> list[Candidate]:
    """Return the candidates that are no chunks. Put the chunks into `slots`."""
    chunks: list[Candidate] = []
    others: list[Candidate] = []
    for candidate in found:
        (chunks if candidate.type == MemoryType.chunk else others).append(candidate)
    if slots is not None:
        slots.candidates = chunks
    return others


def choose_chunks(
    slots: ChunkSlots, scored: Sequence[ScoredCandidate], threshold: float | None
) -> list[DroppedCandidate]:
    """Choose the best chunks of `scored` for the slots. Return those that are dropped."""
    kept, low = keep_similar(scored, threshold)
    kept, unread = keep_reranked(kept, slots.profile)
    kept, under = keep_relevant(kept, slots.profile)
    relevant: list[ScoredCandidate] = []
    irrelevant: list[DroppedCandidate] = []
    for s in kept:
        is_relevant = s.relevance is None or s.relevance >= slots.least
        relevant.append(s) if is_relevant else irrelevant.append(DroppedCandidate(s, "relevance"))
    count = slots.most + slots.profile.spare_candidates
    slots.chosen = relevant[:count]
    return [*low, *unread, *under, *irrelevant, *(DroppedCandidate(s, "rank") for s in relevant[count:])]
