"""Merge bands: the decision whether a new semantic text updates a neighbour or becomes a memory of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from app.domain.memory.same_fact import lexical_overlap, merge_text, numeric_step, same_fact

__all__ = [
    "Decision",
    "MergeBands",
    "MergeRule",
    "Neighbour",
    "decide_merge",
    "lexical_overlap",
    "merge_text",
    "neighbours_to_check",
    "numeric_step",
    "same_fact",
]

MergeRule = Literal["equal", "auto", "same_words", "contains", "numeric", "fallback", "reconcile", "none"]


@dataclass(frozen=True)
class MergeBands:
    """The cosine thresholds of one embedding model, and the limits of the search for a match."""

    auto_update: float = 0.85
    check_low: float = 0.60
    fallback_low: float = 0.30
    auto_update_equality_only: bool = True
    neighbours: int = 5
    fallback_max_age_days: int = 90
    fallback_checks: int = 3
    fallback_on_write: bool = False
    link_min: float = 0.5
    link_top_k: int = 5

    def __post_init__(self) -> None:
        if not 0 <= self.fallback_low <= self.check_low <= self.auto_update <= 1:
            raise ValueError("merge bands need 0 <= fallback_low <= check_low <= auto_update <= 1")
        if not 0 <= self.link_min <= 1:
            raise ValueError("link_min must lie between 0 and 1")
        if self.neighbours < 1:
            raise ValueError("neighbours must be at least 1")
        if min(self.fallback_max_age_days, self.fallback_checks, self.link_top_k) < 0:
            raise ValueError("fallback_max_age_days, fallback_checks and link_top_k cannot be negative")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stored memory near the new text. `similarity` is the cosine; `equal` means that the text keys are equal."""

    id: UUID
    text: str
    similarity: float
    created_at: datetime
    equal: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a new text: the action, the memory to update, and the rule that decided.

    `best_similarity` is the cosine of the nearest neighbour, None without neighbours.
    """

    action: Literal["create", "update"]
    match: Neighbour | None
    best_similarity: float | None
    rule: MergeRule


def decide_merge(
    text: str,
    neighbours: Sequence[Neighbour],
    bands: MergeBands,
    *,
    now: datetime,
    numeric_update: bool,
    fallback_allowed: bool,
) -> Decision:
    """Decide to update the nearest neighbour that states the same fact, or to create a memory if none does.

    An equal text always updates. `numeric_update` and `fallback_allowed` come from the category's policy.
    """
    ranked = _best_first(neighbours)
    best = ranked[0].similarity if ranked else None
    for neighbour in ranked:
        if neighbour.equal:
            return Decision("update", neighbour, best, "equal")
    for neighbour in neighbours_to_check(text, ranked, bands, now=now, fallback_allowed=fallback_allowed):
        if neighbour.similarity >= bands.auto_update and not bands.auto_update_equality_only:
            return Decision("update", neighbour, best, "auto")
        rule = same_fact(text, neighbour.text, numeric_update=numeric_update)
        if rule is not None:
            fallback = neighbour.similarity < bands.check_low
            return Decision("update", neighbour, best, "fallback" if fallback else rule)
    return Decision("create", None, best, "none")


def neighbours_to_check(
    text: str, neighbours: Sequence[Neighbour], bands: MergeBands, *, now: datetime, fallback_allowed: bool
) -> Iterator[Neighbour]:
    """Yield the neighbours to check for the same fact, best first.

    These are all from `check_low` up. Below it, at most `fallback_checks` recent ones follow, if fallback is allowed.
    """
    checks = bands.fallback_checks if bands.fallback_on_write and fallback_allowed else 0
    for neighbour in _best_first(neighbours)[: bands.neighbours]:
        if neighbour.similarity >= bands.check_low:
            yield neighbour
        elif checks and neighbour.similarity >= bands.fallback_low and _is_worth_fallback(text, neighbour, bands, now):
            checks -= 1
            yield neighbour


def _is_worth_fallback(text: str, neighbour: Neighbour, bands: MergeBands, now: datetime) -> bool:
    if now - neighbour.created_at >= timedelta(days=bands.fallback_max_age_days):
        return False
    return lexical_overlap(text, neighbour.text) or numeric_step(text, neighbour.text)


def _best_first(neighbours: Sequence[Neighbour]) -> list[Neighbour]:
    """Sort the nearest neighbour first; among equally near ones the latest."""
    return sorted(neighbours, key=lambda near: (-near.similarity, -near.created_at.timestamp(), near.id))
