"""Daily consolidation, first half: the selection of pairs to compare, and the verdicts of the deterministic rule.

Only active semantic memories of one user and category are compared. The order of the input never matters.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal, NamedTuple
from uuid import UUID

from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.memory.merge_bands import MergeBands
from app.domain.memory.same_fact import SameFact, lexical_overlap, numeric_step, same_fact
from app.domain.memory.veto import find_veto
from app.domain.settable import DAYS, HOURS, SETTABLE, Range, RangedPolicy, Settable

Rule = SameFact | Literal["model", "new_value"]
"""The reason why two memories are one fact.

"model": a model says so. "new_value": a model says that the later text replaces the value of the other.
"""


StopReason = Literal["spent", "share_spent", "unavailable"]
"""The reason why the model is not called again: the tokens of the day or the user's share are spent, or no answer."""


@dataclass(frozen=True, slots=True)
class ConsolidationPolicy(RangedPolicy):
    """The settings of a daily run: hours, days, counts and shares."""

    pool_hours: Annotated[int, HOURS, Range(1)] = 72
    pool_importance: Annotated[int, SETTABLE, Range(1, 5)] = 3
    pool_top_share: Annotated[float, SETTABLE, Range(0, 1)] = 0.1
    compared_a_day: Annotated[int, Settable(1, 10_000), Range(1)] = 2000
    max_age_days: Annotated[int, DAYS, Range(1)] = 90
    neighbours: Annotated[int, Range(1)] = 10
    pairs_per_user_day: Annotated[int, Range(1)] = 50
    fingerprint_days: Annotated[int, DAYS, Range(1)] = 14

    def changed_since(self, now: datetime) -> datetime:
        """Return the cutoff of the pool: it includes memories created or changed at or after it."""
        return now - timedelta(hours=self.pool_hours)

    def compared_since(self, now: datetime) -> datetime:
        """Return the cutoff of the comparison: memories last changed before it are not compared."""
        return now - timedelta(days=self.max_age_days)

    def checked_since(self, now: datetime) -> datetime:
        """Return the cutoff of earlier checks: a pair checked after it is not checked again."""
        return now - timedelta(days=self.fingerprint_days)


class Fingerprint(NamedTuple):
    """The identity of a checked pair. Create it with `pair_fingerprint` only, also from stored values."""

    low: UUID
    high: UUID
    score: float


def pair_fingerprint(a: UUID, b: UUID, score: float) -> Fingerprint:
    """Return the pair's fingerprint. The order of the ids does not matter; the score is rounded to two decimals."""
    return Fingerprint(min(a, b), max(a, b), round(score, 2))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two memories and the cosine of their texts.

    `linkable`: they are also near without what all memories of the user share.
    """

    first: Memory
    second: Memory
    score: float
    linkable: bool = True

    @property
    def ids(self) -> frozenset[UUID]:
        """Both ids, unordered."""
        return frozenset((self.first.id, self.second.id))

    @property
    def fingerprint(self) -> Fingerprint:
        """The pair's fingerprint; see `pair_fingerprint`."""
        return pair_fingerprint(self.first.id, self.second.id, self.score)


class PairSelection(NamedTuple):
    """The pairs to check now, and the number of further pairs that exceed the daily limit."""

    pairs: list[Pair]
    over_limit: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """A checked pair, and the rule by which it is one fact; None means two facts."""

    pair: Pair
    rule: Rule | None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Verdicts, and the tokens they cost.

    `refused` are the pairs that the model was asked about and gave no valid verdict on. `left` is the number of pairs
    without a verdict; a later run checks them. `stopped` is the reason why no more pairs are checked for now. `fault`
    describes the failure of the model's endpoint.
    """

    verdicts: Sequence[Verdict]
    tokens: int = 0
    left: int = 0
    stopped: StopReason | None = None
    fault: str = ""
    refused: Sequence[Pair] = ()


def comparison_pool(memories: Sequence[Memory], policy: ConsolidationPolicy, now: datetime) -> frozenset[UUID]:
    """Return the ids of one user's memories whose neighbours are compared today.

    They are new, changed, important or often retrieved, the new and changed ones first. More than about
    `compared_a_day` take turns, so that a day's work grows with the memories and not with their square.
    `pool_top_share` is a share of all the user's comparable memories. A memory never retrieved is not in that share.
    """
    comparable = [memory for memory in memories if _is_comparable(memory)]
    since = policy.changed_since(now)
    fresh = {m.id for m in comparable if _changed_at(m) >= since}
    important = {m.id for m in comparable if m.importance >= policy.pool_importance}
    retrieved = [memory for memory in comparable if memory.hits > 0]
    retrieved.sort(key=lambda memory: (-memory.hits, -_changed_at(memory).timestamp(), memory.id))
    top = retrieved[: math.ceil(len(comparable) * policy.pool_top_share)]
    young = {m.id for m in comparable_memories(comparable, policy, now)}
    others = ((important | {memory.id for memory in top}) & young) - fresh
    room = policy.compared_a_day - len(fresh)
    if room <= 0:
        return _take_turn(fresh, policy.compared_a_day, now)
    return frozenset(fresh) | _take_turn(others, room, now)


def _take_turn(ids: Collection[UUID], room: int, now: datetime) -> frozenset[UUID]:
    """Return about `room` ids, others every day: each has its turn while the number of turns is the same."""
    turns = max(math.ceil(len(ids) / room), 1)
    return frozenset(id_ for id_ in ids if (id_.int + now.toordinal()) % turns == 0)


def comparable_memories(memories: Iterable[Memory], policy: ConsolidationPolicy, now: datetime) -> list[Memory]:
    """Return the memories that may be in a pair: active, semantic and changed recently enough."""
    oldest = policy.compared_since(now)
    return [memory for memory in memories if _is_comparable(memory) and _changed_at(memory) >= oldest]


def select_pairs_to_check(
    pairs: Iterable[Pair],
    in_pool: Collection[UUID],
    checked: Mapping[Fingerprint, datetime],
    policy: ConsolidationPolicy,
    bands: MergeBands,
    now: datetime,
    spent: Mapping[str, int] | None = None,
    refused: Collection[Fingerprint] = (),
) -> PairSelection:
    """Select the pairs to check now, best first and each once. One of the two memories must be in the pool.

    `checked` has the time of the last check of each fingerprint. `spent` has the number of pairs that were asked about
    today, by user; the default is none. Pairs in `refused`, which had no valid verdict on another day, come last.
    """
    taken = Counter(spent or {})
    seen: set[frozenset[UUID]] = set()
    chosen = []
    over = 0
    for pair in sorted(pairs, key=lambda pair: (pair.fingerprint in refused, -pair.score, pair.fingerprint[:2])):
        if pair.ids in seen:
            continue
        seen.add(pair.ids)
        checked_at = checked.get(pair.fingerprint)
        if checked_at is not None and checked_at > policy.checked_since(now):
            continue
        if (
            _is_in_band(pair.score, bands)
            and not pair.ids.isdisjoint(in_pool)
            and _is_worth_checking(pair, policy.compared_since(now), bands)
        ):
            if taken[pair.first.user_id] < policy.pairs_per_user_day:
                taken[pair.first.user_id] += 1
                chosen.append(pair)
            else:
                over += 1
    return PairSelection(chosen, over)


def judge_by_rule(pairs: Iterable[Pair], numeric_categories: Collection[str] = ()) -> list[Verdict]:
    """Return the verdict of the deterministic rule on each pair, in order."""
    return [Verdict(pair, deterministic_rule(pair.first, pair.second, numeric_categories)) for pair in pairs]


def deterministic_rule(a: Memory, b: Memory, numeric_categories: Collection[str] = ()) -> Rule | None:
    """Return the deterministic rule by which two memories of one category are one fact; None if none applies."""
    return same_fact(a.text, b.text, numeric_update=a.category in numeric_categories)


def rule_from_verdict(
    a: Memory,
    b: Memory,
    verdict: Literal["same", "new_value", "different"],
    numeric_categories: Collection[str] = (),
) -> Rule | None:
    """Return the rule that a model's verdict on two memories of one category gives.

    Return None for "different", and for two texts that a veto keeps apart.
    """
    if verdict == "different" or find_veto(a.text, b.text, verdict, numeric_update=a.category in numeric_categories):
        return None
    return "model" if verdict == "same" else verdict


def _is_comparable(memory: Memory) -> bool:
    return memory.state is MemoryState.active and memory.type is MemoryType.semantic


def _changed_at(memory: Memory) -> datetime:
    return max(memory.created_at, memory.updated_at)


def _is_in_band(score: float, bands: MergeBands) -> bool:
    """Tell whether the score needs a check. There is no upper bound if auto-update accepts equal texts only."""
    return score >= bands.fallback_low and (bands.auto_update_equality_only or score < bands.auto_update)


def _is_worth_checking(pair: Pair, oldest: datetime, bands: MergeBands) -> bool:
    """Tell whether two memories may be one fact. Near ones may be one in quite other words, or in any language."""
    a = pair.first
    b = pair.second
    return (
        a.id != b.id
        and (a.user_id, a.category) == (b.user_id, b.category)
        and all(_is_comparable(memory) and _changed_at(memory) >= oldest for memory in (a, b))
        and (pair.score >= bands.check_low or lexical_overlap(a.text, b.text) or numeric_step(a.text, b.text))
    )
