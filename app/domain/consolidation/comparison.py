"""Daily consolidation, first half: which stored memories are compared, and the rule's verdicts (seed 003 §4, SPEC §7).

Only active semantic memories of one user and category are ever compared. The order of the input never matters.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.memory.merge_bands import MergeBands
from app.domain.memory.same_fact import SameFact, lexical_overlap, numeric_step, same_fact
from app.domain.memory.veto import find_veto

Rule = SameFact | Literal["model", "new_value"]
"""Why two memories are one fact. "model": a model says so; "new_value": so too, and the later text replaces the other's
value."""


StopReason = Literal["spent", "unavailable"]
"""Why a model is not asked any more: the day's tokens are spent, or it does not answer."""


@dataclass(frozen=True, slots=True)
class ConsolidationPolicy:
    """Hours, days, counts and shares of a daily run."""

    pool_hours: int = 72
    pool_importance: int = 3
    pool_top_share: float = 0.1
    max_age_days: int = 90
    neighbours: int = 10
    pairs_per_user_day: int = 50
    fingerprint_days: int = 14

    def __post_init__(self) -> None:
        for name in ("pool_hours", "max_age_days", "neighbours", "pairs_per_user_day", "fingerprint_days"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 1 <= self.pool_importance <= 5:
            raise ValueError("pool_importance must be from 1 to 5")
        if not 0 <= self.pool_top_share <= 1:
            raise ValueError("pool_top_share must lie between 0 and 1")

    def changed_since(self, now: datetime) -> datetime:
        """What was created or changed at or after this instant is in the pool."""
        return now - timedelta(hours=self.pool_hours)

    def compared_since(self, now: datetime) -> datetime:
        """What was last changed before this instant is not compared."""
        return now - timedelta(days=self.max_age_days)

    def checked_since(self, now: datetime) -> datetime:
        """A pair checked after this instant is not checked again."""
        return now - timedelta(days=self.fingerprint_days)


class Fingerprint(NamedTuple):
    """What a checked pair is remembered by. Made by `fingerprint` alone, also from stored values."""

    low: UUID
    high: UUID
    score: float


def pair_fingerprint(a: UUID, b: UUID, score: float) -> Fingerprint:
    """The pair's fingerprint, the same whichever memory comes first; the score counts to two decimals."""
    return Fingerprint(min(a, b), max(a, b), round(score, 2))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two memories and the cosine of their texts."""

    first: Memory
    second: Memory
    score: float

    @property
    def ids(self) -> frozenset[UUID]:
        """Both ids, without an order."""
        return frozenset((self.first.id, self.second.id))

    @property
    def fingerprint(self) -> Fingerprint:
        """See `fingerprint`."""
        return pair_fingerprint(self.first.id, self.second.id, self.score)


class PairSelection(NamedTuple):
    """The pairs to check now, and how many more the day has no room for."""

    pairs: list[Pair]
    over_limit: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """A checked pair and the rule by which it is one fact; None: two facts."""

    pair: Pair
    rule: Rule | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Verdicts, and the tokens they cost.

    `left`: pairs without a verdict; they come again. `stopped`: why no more are asked for the time being;
    `fault`: what the model's endpoint did.
    """

    verdicts: Sequence[Verdict]
    tokens: int = 0
    left: int = 0
    stopped: StopReason | None = None
    fault: str = ""


def comparison_pool(memories: Sequence[Memory], policy: ConsolidationPolicy, now: datetime) -> frozenset[UUID]:
    """Whose neighbours are looked at, of one user's memories: the new and changed, the important, the much retrieved.

    The top share is of all the user's comparable memories; what was never retrieved is not in it.
    """
    comparable = [one for one in memories if _is_comparable(one)]
    since = policy.changed_since(now)
    chosen = {one.id for one in comparable if _changed_at(one) >= since or one.importance >= policy.pool_importance}
    retrieved = [one for one in comparable if one.hits > 0]
    retrieved.sort(key=lambda one: (-one.hits, -_changed_at(one).timestamp(), one.id))
    top = retrieved[: math.ceil(len(comparable) * policy.pool_top_share)]
    return frozenset(chosen | {one.id for one in top})


def comparable_memories(memories: Iterable[Memory], policy: ConsolidationPolicy, now: datetime) -> list[Memory]:
    """What may be in a pair at all."""
    oldest = policy.compared_since(now)
    return [one for one in memories if _is_comparable(one) and _changed_at(one) >= oldest]


def select_pairs_to_check(
    pairs: Iterable[Pair],
    in_pool: Collection[UUID],
    checked: Mapping[Fingerprint, datetime],
    policy: ConsolidationPolicy,
    bands: MergeBands,
    now: datetime,
    spent: Mapping[str, int] | None = None,
) -> PairSelection:
    """The pairs to check now, best first, each once; one of the two has to be in the pool.

    `checked`: when each fingerprint was made. `spent`: pairs already checked today, by user.
    """
    taken = Counter(spent or {})
    seen: set[frozenset[UUID]] = set()
    chosen, over = [], 0
    for pair in sorted(pairs, key=lambda pair: (-pair.score, pair.fingerprint[:2])):
        if pair.ids in seen:
            continue
        seen.add(pair.ids)
        lately = checked.get(pair.fingerprint)
        if lately is not None and lately > policy.checked_since(now):
            continue
        if (
            _is_in_band(pair.score, bands)
            and not pair.ids.isdisjoint(in_pool)
            and _is_worth_checking(pair, policy.compared_since(now))
        ):
            if taken[pair.first.user_id] < policy.pairs_per_user_day:
                taken[pair.first.user_id] += 1
                chosen.append(pair)
            else:
                over += 1
    return PairSelection(chosen, over)


def judge_by_rule(pairs: Iterable[Pair], numeric_categories: Collection[str] = ()) -> list[Verdict]:
    """The verdict of the deterministic rule on each pair."""
    return [Verdict(pair, deterministic_rule(pair.first, pair.second, numeric_categories)) for pair in pairs]


def deterministic_rule(a: Memory, b: Memory, numeric_categories: Collection[str] = ()) -> Rule | None:
    """The deterministic rule by which two memories of one category are one fact, or None."""
    return same_fact(a.text, b.text, numeric_update=a.category in numeric_categories)


def rule_from_verdict(
    a: Memory,
    b: Memory,
    verdict: Literal["same", "new_value", "different"],
    numeric_categories: Collection[str] = (),
) -> Rule | None:
    """What a model's verdict on two memories of one category comes to: a yes holds unless the texts forbid it."""
    if verdict == "different" or find_veto(a.text, b.text, verdict, numeric_update=a.category in numeric_categories):
        return None
    return "model" if verdict == "same" else verdict


def _is_comparable(memory: Memory) -> bool:
    return memory.state is MemoryState.active and memory.type is MemoryType.semantic


def _changed_at(memory: Memory) -> datetime:
    return max(memory.created_at, memory.updated_at)


def _is_in_band(score: float, bands: MergeBands) -> bool:
    """Where auto-update admits equality only, no cosine is too high for a check."""
    return score >= bands.fallback_low and (bands.auto_update_equality_only or score < bands.auto_update)


def _is_worth_checking(pair: Pair, oldest: datetime) -> bool:
    a, b = pair.first, pair.second
    return (
        a.id != b.id
        and (a.user_id, a.category) == (b.user_id, b.category)
        and all(_is_comparable(one) and _changed_at(one) >= oldest for one in (a, b))
        and (lexical_overlap(a.text, b.text) or numeric_step(a.text, b.text))
    )
