"""The memories that match a question better than its answer, and what keeps them out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.domain.memory.memory import MemoryType
from app.domain.recall.arrangement import AnswerLimits
from app.domain.recall.relevance import LeastRelevance
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import DroppedCandidate


@dataclass(frozen=True, slots=True)
class Hidden:
    """The best matches that are not answered for one `reason`: how many, in which categories, and the best relevance.

    `category_not_allowed`: the agent's allowlist lacks the categories. `relevance`: they are below the cut, which is
    `least_relevance` for the best of them.
    """

    reason: Literal["category_not_allowed", "relevance"]
    categories: tuple[str, ...]
    count: int
    best_relevance: float
    least_relevance: float


def best_relevance(items: Sequence[ScoredCandidate]) -> float:
    """Return the highest known relevance, 0 without one."""
    return max((one.relevance for one in items if one.relevance is not None), default=0.0)


def hidden_by_cut(dropped: Sequence[DroppedCandidate], answered: float, limits: AnswerLimits) -> Hidden | None:
    """Return what the least relevance hides. `answered`: the best relevance in the answer."""
    cut = [one.scored for one in dropped if one.reason == "relevance" and one.scored.candidate.category in limits.least]
    return _describe("relevance", cut, answered, limits.least)


def hidden_by_allowlist(found: Sequence[ScoredCandidate], answered: float, limits: AnswerLimits) -> Hidden | None:
    """Return what an agent's allowlist hides. `found`: the best of the other categories."""
    admitted = [one for one in found if limits.admits(one)]
    return _describe("category_not_allowed", admitted, answered, limits.least)


def _describe(
    reason: Literal["category_not_allowed", "relevance"],
    found: Sequence[ScoredCandidate],
    answered: float,
    least: Mapping[str, LeastRelevance],
) -> Hidden | None:
    better = [(one.relevance, one) for one in found if one.relevance is not None and one.relevance > answered]
    if not better:
        return None
    relevance, best = max(better, key=lambda one: one[0])
    candidate = best.candidate
    return Hidden(
        reason,
        categories=tuple(sorted({one.candidate.category for _, one in better})),
        count=len(better),
        best_relevance=relevance,
        least_relevance=least[candidate.category].least_for(is_turn=candidate.type == MemoryType.turn),
    )
