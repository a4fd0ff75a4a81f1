"""The slots of chunks: which are chosen, and why the others are dropped."""

from uuid import UUID

from app.domain.memory.memory import MemoryType
from app.domain.recall.profiles import RankingProfile
from app.domain.recall.scoring import ScoredCandidate
from app.usecases.recall.slots import ChunkSlots, choose_chunks
from tests.domain.candidates import candidate

PROFILE = RankingProfile("plain", "zscore")


class LoneId(UUID):
    """An id that fails the test when it is compared: a comparison of each chunk with all others is quadratic."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a chunk was compared with another one")

    __hash__ = UUID.__hash__


def scored(number: int, relevance: float | None, similarity: float = 0.5) -> ScoredCandidate:
    chunk = candidate(number, type=MemoryType.chunk, similarity=similarity)._replace(id=LoneId(int=number))
    return ScoredCandidate(chunk, 1.0, {}, 0, relevance)


def test_the_best_relevant_chunks_are_chosen_without_a_comparison_of_each_with_all() -> None:
    slots = ChunkSlots(PROFILE, most=1, least=0.05)
    room = slots.most + PROFILE.spare_candidates
    far = scored(1, 0.9, similarity=0.1)
    good = [scored(100 + n, relevance) for n, relevance in enumerate([0.9, None, *[0.05] * room])]
    poor = [scored(200 + n, 0.04) for n in range(3)]
    ranked = [far, poor[0], *good[:2], poor[1], *good[2:], poor[2]]
    dropped = choose_chunks(slots, ranked, threshold=0.3)
    assert [s.candidate.id.int for s in slots.chosen] == [s.candidate.id.int for s in good[:room]]
    reasons = [(d.scored.candidate.id.int, d.reason) for d in dropped]
    assert reasons == [
        (1, "threshold"),
        *[(s.candidate.id.int, "relevance") for s in poor],
        *[(s.candidate.id.int, "rank") for s in good[room:]],
    ]
    assert len(good) > room > 1
