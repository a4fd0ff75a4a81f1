"""Selection: which scored candidates are answered, and why the others are dropped."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, TypeVar

import numpy as np

from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.late_interaction import DIMENSION, max_sim
from app.domain.recall.profiles import RankingProfile, RankingQuery
from app.domain.recall.scoring import ScoredCandidate, candidate_relevance

T = TypeVar("T")
DropReason = Literal[
    "threshold", "score_threshold", "rag_length", "rank", "diversity", "relevance", "question", "duplicate"
]


SAME_TEXT: Final = 0.98
"""The cosine from which on a turn has the text of the query."""
REPEATED_WORDS: Final = 0.9
REPEATED_MATTER: Final = 0.7
ADDED_WORDS: Final = 2
"""A turn that ends in a question asks the query again from this match of words and this cosine on.

The match alone is high for a long turn that has all the words, the cosine alone for another question about the matter.
A turn with more content words of its own than `ADDED_WORDS` may hold the answer: "Where do I live? In Ghent, right?"
"""


class DroppedCandidate(NamedTuple):
    """A candidate that is not in the answer, with the reason."""

    scored: ScoredCandidate
    reason: DropReason


def set_aside_repeats(candidates: Sequence[Candidate], query: RankingQuery) -> tuple[list[Candidate], list[Candidate]]:
    """Return the other candidates, and the turns that only ask the query again or repeat it in an answer.

    They answer nothing, and they match better than any answer. So they must be gone before scores are standardised.
    A turn with a place in its thread stays: it leads to the turn beside it, which may hold the answer.
    """
    turns = (c for c in candidates if c.type == MemoryType.turn and c.seq is None)
    near = [c for c in turns if (c.similarity or 0.0) >= REPEATED_MATTER]
    words = query.tokens or b""
    longest = len(words) + ADDED_WORDS * DIMENSION
    repeats = {
        c.id
        for c, match in zip(near, max_sim(words, [c.tokens for c in near]), strict=True)
        if (c.similarity or 0.0) >= SAME_TEXT
        or (c.asks and match is not None and match >= REPEATED_WORDS and len(c.tokens or b"") <= longest)
    }
    if not repeats:
        return list(candidates), []
    return [c for c in candidates if c.id not in repeats], [c for c in candidates if c.id in repeats]


def keep_similar(
    scored: Sequence[ScoredCandidate], threshold: float | None
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Split by the request's `threshold` on cosine similarity. A candidate without a similarity is kept."""
    if threshold is None:
        return list(scored), []
    kept = []
    dropped = []
    for s in scored:
        similarity = s.candidate.similarity
        low = similarity is not None and similarity < threshold
        dropped.append(DroppedCandidate(s, "threshold")) if low else kept.append(s)
    return kept, dropped


def keep_reranked(
    scored: Sequence[ScoredCandidate], profile: RankingProfile
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Split by whether the reranker has read the candidate; unread ones are beyond the pool.

    Only the sigmoid fusion drops unread candidates, and only if the reranker read some.
    """
    if profile.fusion != "sigmoid" or all(s.candidate.rerank is None for s in scored):
        return list(scored), []
    kept = [s for s in scored if s.candidate.rerank is not None]
    return kept, [DroppedCandidate(s, "rank") for s in scored if s.candidate.rerank is None]


def keep_relevant(
    scored: Sequence[ScoredCandidate], profile: RankingProfile
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Split by the profile's `score_threshold` on relevance."""
    if profile.score_threshold is None:
        return list(scored), []
    kept = []
    dropped = []
    for s in scored:
        low = candidate_relevance(s.candidate, profile) < profile.score_threshold
        dropped.append(DroppedCandidate(s, "score_threshold")) if low else kept.append(s)
    return kept, dropped


def cap_categories(
    scored: Sequence[ScoredCandidate], lengths: dict[str, int]
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Keep the best candidates of each category, at most `lengths[category]` (its `rag_length`)."""
    kept: list[ScoredCandidate] = []
    dropped: list[DroppedCandidate] = []
    taken: dict[str, int] = {}
    for s in scored:
        category = s.candidate.category
        before = taken.get(category, 0)
        if before >= lengths.get(category, len(scored)):
            dropped.append(DroppedCandidate(s, "rag_length"))
            continue
        taken[category] = before + 1
        kept.append(s)
    return kept, dropped


def select_best(
    scored: Sequence[ScoredCandidate], top_k: int, profile: RankingProfile
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Choose `top_k` candidates: the best in order, or by maximal marginal relevance if `mmr_lambda` is below 1."""
    if profile.mmr_lambda >= 1.0:
        return list(scored[:top_k]), [DroppedCandidate(s, "rank") for s in scored[top_k:]]
    pool = scored[: profile.pool * top_k]
    rest = scored[profile.pool * top_k :]
    places = _diverse_places(pool, top_k, profile.mmr_lambda)
    taken = set(places)
    left = [
        DroppedCandidate(s, "diversity" if place < top_k else "rank")
        for place, s in enumerate(pool)
        if place not in taken
    ]
    return [pool[place] for place in places], left + [DroppedCandidate(s, "rank") for s in rest]


def _diverse_places(pool: Sequence[ScoredCandidate], wanted: int, weight: float) -> list[int]:
    """Return the places of `wanted` candidates in the order in which maximal marginal relevance chooses them.

    The redundancy of a candidate is its highest cosine to those chosen. A candidate without a vector has none.
    """
    count = min(wanted, len(pool))
    totals = weight * np.array([s.total for s in pool], np.float64)
    known = [place for place, s in enumerate(pool) if s.candidate.embedding is not None]
    vectors = np.array([pool[place].candidate.embedding for place in known], np.float32)
    row_of = {place: row for row, place in enumerate(known)}
    redundancy = np.full(len(known), -np.inf)
    chosen: list[int] = []
    for _ in range(count):
        values = totals.copy()
        values[known] -= (1 - weight) * np.where(np.isinf(redundancy), 0.0, redundancy)
        values[chosen] = -np.inf
        chosen.append(int(np.argmax(values)))
        if (row := row_of.get(chosen[-1])) is not None:
            redundancy = np.maximum(redundancy, vectors @ vectors[row])
    return chosen


def merge_ordered(some: Sequence[T], others: Sequence[T], worth: Callable[[T], float]) -> list[T]:
    """Return both sequences as one. Each keeps its order; of two next items the one with more worth comes first."""
    result: list[T] = []
    at = 0
    for item in some:
        while at < len(others) and worth(others[at]) > worth(item):
            result.append(others[at])
            at += 1
        result.append(item)
    return [*result, *others[at:]]
