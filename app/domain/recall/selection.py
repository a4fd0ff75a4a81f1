"""Selection: which scored candidates are answered, and why the others are dropped."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from app.domain.recall.profiles import RankingProfile
from app.domain.recall.scoring import ScoredCandidate, candidate_relevance

DropReason = Literal[
    "threshold", "score_threshold", "rag_length", "rank", "diversity", "relevance", "question", "duplicate"
]


class DroppedCandidate(NamedTuple):
    """A candidate that is not in the answer, with the reason."""

    scored: ScoredCandidate
    reason: DropReason


def keep_similar(
    scored: Sequence[ScoredCandidate], threshold: float | None
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Split by the request's `threshold` on cosine similarity. A candidate without a similarity is kept."""
    if threshold is None:
        return list(scored), []
    kept, dropped = [], []
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
    kept, dropped = [], []
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
    pool, rest = list(scored[: profile.pool * top_k]), scored[profile.pool * top_k :]
    first = {id(s) for s in pool[:top_k]}
    chosen: list[ScoredCandidate] = []
    while pool and len(chosen) < top_k:
        best = max(
            pool, key=lambda s: profile.mmr_lambda * s.total - (1 - profile.mmr_lambda) * _max_redundancy(s, chosen)
        )
        chosen.append(best)
        pool.remove(best)
    left = [DroppedCandidate(s, "diversity" if id(s) in first else "rank") for s in pool]
    return chosen, left + [DroppedCandidate(s, "rank") for s in rest]


def _max_redundancy(scored: ScoredCandidate, chosen: Sequence[ScoredCandidate]) -> float:
    vector = scored.candidate.embedding
    if vector is None:
        return 0.0
    others = [c.candidate.embedding for c in chosen if c.candidate.embedding is not None]
    return max((float(vector @ other) for other in others), default=0.0)
