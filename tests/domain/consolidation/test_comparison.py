"""The pairs of memories that a daily consolidation compares."""

import struct
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.consolidation.comparison import (
    ConsolidationPolicy,
    Fingerprint,
    Pair,
    comparison_pool,
    pair_fingerprint,
    select_pairs_to_check,
)
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.memory.merge_bands import MergeBands
from tests.consolidation_cases import BANDS, NOW, POLICY, all_pairs, memories, memory, scored


def chosen(
    *pairs: Pair,
    checked: Mapping[Fingerprint, datetime] | None = None,
    policy: ConsolidationPolicy = POLICY,
    bands: MergeBands = BANDS,
    spent: Mapping[str, int] | None = None,
) -> list[Pair]:
    """Return the pairs to check if all memories are in the pool."""
    everybody = {one.id for pair in pairs for one in (pair.first, pair.second)}
    return select_pairs_to_check(pairs, everybody, checked or {}, policy, bands, NOW, spent).pairs


@pytest.mark.parametrize(
    ("one", "inside"),
    [
        (memory(1, age=2.9), True),
        (memory(1, age=3), True),
        (memory(1, age=3.01), False),
        (memory(1, age=30, updated_at=NOW - timedelta(hours=71)), True),
        (memory(1, age=30, importance=3), True),
        (memory(1, age=89, importance=5), True),
        (memory(1, age=91, importance=5), False),
        (memory(1, age=1, state=MemoryState.soft_deleted), False),
        (memory(1, age=1, state=MemoryState.superseded), False),
        (memory(1, age=1, type=MemoryType.insight), False),
        (memory(1, age=1, type=MemoryType.turn, importance=5), False),
    ],
)
def test_the_pool_is_the_new_the_changed_and_the_important(one: Memory, inside: bool) -> None:
    assert comparison_pool([one], POLICY, NOW) == ({one.id} if inside else frozenset())


def test_the_most_retrieved_tenth_is_in_the_pool() -> None:
    old = [memory(number, age=30, hits=number) for number in range(20)]
    assert comparison_pool(old, POLICY, NOW) == {UUID(int=19), UUID(int=18)}
    assert comparison_pool(old[:11], POLICY, NOW) == {UUID(int=10), UUID(int=9)}, "a part of a tenth counts whole"
    assert comparison_pool([replace(one, hits=0) for one in old], POLICY, NOW) == frozenset()
    assert comparison_pool(
        [*old, *(memory(n, age=30, hits=99, state=MemoryState.soft_deleted) for n in range(30, 40))], POLICY, NOW
    ) == {
        UUID(int=19),
        UUID(int=18),
    }


def test_a_large_pool_takes_turns_and_the_new_come_first() -> None:
    old = [memory(number, age=30, importance=5) for number in range(7)]
    new = [memory(number) for number in (8, 9)]

    def pools(some: list[Memory], days: int) -> list[frozenset[UUID]]:
        policy = replace(POLICY, compared_a_day=3)
        return [comparison_pool(some, policy, NOW + timedelta(days=day)) for day in range(days)]

    one_of_seven = pools([*old, *new], 1)[0] - {one.id for one in new}
    assert len(one_of_seven) == 1
    for some in (old, [*old, *new][-3:], [memory(number) for number in range(7)]):
        turns = pools(some, 3)
        assert max(map(len, turns)) == 3
        assert frozenset().union(*turns) == {one.id for one in some}


def test_one_of_a_pair_has_to_be_in_the_pool() -> None:
    a, b, c = (memory(number) for number in (1, 2, 3))
    pairs = [Pair(a, b, 0.8), Pair(b, c, 0.7), Pair(a, c, 0.9)]
    assert select_pairs_to_check(pairs, {b.id}, {}, POLICY, BANDS, NOW).pairs == [pairs[0], pairs[1]]
    assert select_pairs_to_check(pairs, {a.id, c.id}, {}, POLICY, BANDS, NOW).pairs == [pairs[2], pairs[0], pairs[1]]
    assert select_pairs_to_check(pairs, (), {}, POLICY, BANDS, NOW) == ([], 0)


@pytest.mark.parametrize(
    ("score", "equality_only", "worth"),
    [
        (0.29, True, False),
        (0.30, True, True),
        (0.84, False, True),
        (0.85, False, False),
        (0.85, True, True),
        (1.0, True, True),
        (1.0000001, True, True),
        (float("nan"), True, False),
    ],
)
def test_the_band_ends_where_auto_update_begins(score: float, equality_only: bool, worth: bool) -> None:
    pair = Pair(memory(1), memory(2, "The user keeps many bees"), score)
    assert chosen(pair, bands=MergeBands(auto_update_equality_only=equality_only)) == ([pair] if worth else [])


@pytest.mark.parametrize(
    ("other", "worth"),
    [
        (memory(2), True),
        (memory(2, age=90), True),
        (memory(2, age=90.01), False),
        (memory(2, age=400, updated_at=NOW - timedelta(days=5)), True),
        (memory(2, user_id="ben"), False),
        (memory(2, category="goals"), False),
        (memory(2, type=MemoryType.summary), False),
        (memory(2, state=MemoryState.superseded), False),
        (memory(2, "The user has a sister"), False),
        (memory(2, "Three hives"), False),
        (memory(1), False),
    ],
)
def test_what_a_check_is_worth(other: Memory, worth: bool) -> None:
    for pair in (Pair(memory(1), other, 0.55), Pair(other, memory(1), 0.55)):
        assert chosen(pair) == ([pair] if worth else [])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The user is vegetarian.", "The user does not eat meat."),
        ("Она не ест мясо.", "Лена вегетарианка."),
    ],
)
def test_near_memories_are_worth_a_check_without_a_shared_word(a: str, b: str) -> None:
    near, far = Pair(memory(1, a), memory(2, b), 0.61), Pair(memory(1, a), memory(3, b), 0.59)
    assert chosen(near, far) == [near]


def test_a_step_in_numbers_is_worth_a_check() -> None:
    three, four, nine = memory(1, "Ana is 3"), memory(2, "Turned 4"), memory(3, "Reached 9")
    assert chosen(Pair(three, four, 0.5), Pair(four, nine, 0.5)) == [Pair(three, four, 0.5)]


def test_a_pair_is_not_checked_again_within_a_fortnight() -> None:
    pair = Pair(memory(1), memory(2), 0.801)
    for days, again in ((0, False), (13.9, False), (14, True)):
        checked = {pair_fingerprint(UUID(int=2), UUID(int=1), 0.8): NOW - timedelta(days=days)}
        assert chosen(pair, checked=checked) == ([pair] if again else [])
    assert chosen(replace(pair, score=0.81), checked={pair.fingerprint: NOW}), "another text, another score"


def test_best_first_and_each_pair_once() -> None:
    a, b, c = (memory(number) for number in (1, 2, 3))
    best, twice, worst = Pair(c, b, 0.9), Pair(b, c, 0.6), Pair(a, b, 0.4)
    assert chosen(worst, twice, best) == [best, worst]


def test_a_user_has_so_many_checks_a_day() -> None:
    crowd = [memory(number) for number in range(12)] + [memory(number, user_id="ben") for number in range(20, 23)]
    pairs = all_pairs(crowd)
    found = chosen(*pairs)
    assert [sum(pair.first.user_id == user for pair in found) for user in ("ana", "ben")] == [50, 3]
    everybody = {one.id for one in crowd}
    assert select_pairs_to_check(pairs, everybody, {}, POLICY, BANDS, NOW).over_limit == len(pairs) - 53
    assert (
        select_pairs_to_check(pairs, everybody, {}, POLICY, BANDS, NOW, {"ana": 48, "ben": 60}).over_limit
        == len(pairs) - 2
    )
    found = chosen(*pairs, spent={"ana": 48, "ben": 60})
    assert [sum(pair.first.user_id == user for pair in found) for user in ("ana", "ben")] == [2, 0]


@given(st.uuids(), st.uuids(), st.floats(-1, 1))
def test_a_fingerprint_is_the_same_either_way_and_from_storage(a: UUID, b: UUID, score: float) -> None:
    made = pair_fingerprint(a, b, score)
    assert made == pair_fingerprint(b, a, score)
    assert made.low <= made.high
    [stored] = struct.unpack("f", struct.pack("f", made.score))  # the precision of a REAL column
    assert pair_fingerprint(made.low, made.high, stored) == made


@pytest.mark.parametrize(
    "values",
    [
        {"compared_a_day": 0},
        *({"pool_hours": 0}, {"pool_importance": 0}, {"pool_importance": 6}, {"pool_top_share": -0.1}),
        *({"pool_top_share": 1.1}, {"max_age_days": 0}, {"pairs_per_user_day": 0}, {"fingerprint_days": 0}),
        {"neighbours": 0},
    ],
)
def test_a_policy_is_checked(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        ConsolidationPolicy(**values)


@settings(deadline=None)
@given(memories(), st.randoms())
def test_the_pool_does_not_depend_on_the_order(some: list[Memory], random: Any) -> None:
    before = comparison_pool(some, POLICY, NOW)
    random.shuffle(some)
    assert comparison_pool(some, POLICY, NOW) == before <= {one.id for one in some}


@pytest.mark.long
@settings(deadline=None)
@given(scored(), st.integers(1, 6), st.randoms())
def test_pairs_are_capped_ordered_and_never_come_twice(pairs: list[Pair], cap: int, random: Any) -> None:
    policy = replace(POLICY, pairs_per_user_day=cap)
    everybody = [one for pair in pairs for one in (pair.first, pair.second)]
    members = comparison_pool(everybody, policy, NOW)
    checked: dict[Fingerprint, datetime] = {}
    days, seen, left = 0, [], [0]
    while (worth := select_pairs_to_check(pairs, members, checked, policy, BANDS, NOW)).pairs:
        found = worth.pairs
        scores = [pair.score for pair in found]
        assert scores == sorted(scores, reverse=True)
        assert all(sum(pair.first.user_id == user for pair in found) <= cap for user in ("ana", "ben"))
        random.shuffle(pairs)
        assert select_pairs_to_check(pairs, members, checked, policy, BANDS, NOW) == worth
        checked |= {pair.fingerprint: NOW for pair in found}
        seen += [pair.ids for pair in found]
        left.append(len(found) + worth.over_limit)
        days += 1
    assert len(seen) == len(set(seen)) <= days * cap * 2
    assert len(left) == 1 or left[1] == len(seen), "what is over comes another day"
    for pair in pairs:
        expected = bool(chosen(pair)) and not pair.ids.isdisjoint(members)
        assert (pair.ids in seen) == expected
