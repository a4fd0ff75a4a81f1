"""Sliding windows: exact to the microsecond, never twice a limit around a border, one count for all replicas."""

from collections import Counter
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.tenancy.limits import SECOND_US, Allowance, Ceiling, LimitKind, LimitPolicy, Tally, retry_after_s
from tests.effort import tries

WINDOW = 60 * SECOND_US
START = 1_800_000_000 * SECOND_US  # a window starts here
steps = st.lists(st.integers(0, 2 * WINDOW), min_size=1, max_size=60)


def arrive(tally: Tally, most: int, at: int) -> int:
    """Count a request if there is room. Return its wait in microseconds."""
    tally.advance_window(at)
    if not (wait := tally.wait_us(most, at)):
        tally.add_count(1)
    return wait


@given(most=st.integers(1, 20), gaps=steps)
def test_who_waits_as_long_as_told_finds_room_and_not_a_microsecond_before(most: int, gaps: list[int]) -> None:
    tally, at = Tally("t", WINDOW, START), START
    for gap in gaps:
        at += gap // most
        if wait := arrive(tally, most, at):
            assert wait <= 2 * WINDOW
            tally.advance_window(at + wait - 1)
            assert tally.wait_us(most, at + wait - 1) == 1
            at += wait
            assert arrive(tally, most, at) == 0


@given(most=st.integers(1, 20), gaps=steps, data=st.data())
def test_several_at_once_wait_until_there_is_room_for_all_of_them(
    most: int, gaps: list[int], data: st.DataObject
) -> None:
    tally, at = Tally("t", WINDOW, START), START
    for gap in gaps:
        at += gap // most
        arrive(tally, most, at)
        count = data.draw(st.integers(1, most))
        if wait := tally.wait_us(most, at, count):
            assert wait <= 2 * WINDOW
            tally.advance_window(at + wait - 1)
            assert tally.wait_us(most, at + wait - 1, count) == 1
            at += wait
            tally.advance_window(at)
            assert tally.wait_us(most, at, count) == 0
            tally.add_count(count)


@given(most=st.integers(1, 50), first=st.integers(0, WINDOW - 1), second=st.integers(0, WINDOW - 1))
def test_two_full_loads_do_not_fit_around_a_border(most: int, first: int, second: int) -> None:
    tally = Tally("t", WINDOW, START)
    before = sum(arrive(tally, most, START + first) == 0 for _ in range(2 * most))
    after = sum(arrive(tally, most, START + WINDOW + second) == 0 for _ in range(2 * most))
    assert before == most
    assert after * WINDOW <= most * second, "as much room as the first window has left the sliding one"


def test_the_window_slides() -> None:
    tally = Tally("t", WINDOW, START)
    assert [arrive(tally, 4, START) for _ in range(5)] == [0, 0, 0, 0, WINDOW + WINDOW // 4]
    assert arrive(tally, 4, START + WINDOW + WINDOW // 4 - 1) == 1
    assert arrive(tally, 4, START + WINDOW + WINDOW // 4) == 0
    assert arrive(tally, 4, START + WINDOW + WINDOW // 2) == 0
    assert arrive(tally, 4, START + WINDOW + WINDOW // 2) == WINDOW // 4
    assert [arrive(tally, 4, START + 4 * WINDOW) for _ in range(5)][:4] == [0] * 4


def test_a_clock_that_is_put_back_blocks_nobody() -> None:
    tally = Tally("t", WINDOW, START + WINDOW)
    assert [arrive(tally, 2, START + WINDOW) for _ in range(2)] == [0, 0]
    assert arrive(tally, 2, START + WINDOW - SECOND_US) > 0, "a little: the same window"
    assert arrive(tally, 2, START - 10 * WINDOW) == 0, "far: a new one"


def test_what_is_given_back_leaves_room_and_no_debt() -> None:
    tally = Tally("t", WINDOW, START)
    arrive(tally, 1, START)
    tally.add_count(-1)
    assert arrive(tally, 1, START) == 0
    tally.add_count(-5)
    assert (tally.now, tally.untold) == (0, 0)


class Board:
    """The shared counters of the replicas, by window."""

    def __init__(self) -> None:
        self.totals: Counter[int] = Counter()

    def exchange(self, tally: Tally, at: int) -> None:
        tally.advance_window(at)
        told = [(tally.index - 1, tally.untold_before), (tally.index, tally.untold)]
        tally.untold = tally.untold_before = 0
        for index, count in told:
            self.totals[index] += count
            tally.merge_total(index, self.totals[index])


@settings(max_examples=tries(200))
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["arrive", "exchange"]), st.integers(0, WINDOW // 3)), max_size=60
    )
)
def test_replicas_that_exchange_know_one_count_and_lose_none(events: list[tuple[int, str, int]]) -> None:
    board, at = Board(), START
    replicas = [Tally("t", WINDOW, START) for _ in range(3)]
    truth: Counter[int] = Counter()
    for number, event, gap in events:
        border = at // WINDOW != (at + gap) // WINDOW
        at += gap
        if event == "arrive":
            replicas[number].advance_window(at)
            replicas[number].add_count(1)
            truth[at // WINDOW] += 1
        if border:  # a replica sends its counts while they matter
            for tally in replicas:
                board.exchange(tally, at)
        if event == "exchange":
            board.exchange(replicas[number], at)
    for _ in range(2):
        for tally in replicas:
            board.exchange(tally, at)
    window = at // WINDOW
    assert {(tally.before, tally.now) for tally in replicas} == {(truth[window - 1], truth[window])}


def test_what_the_others_forgot_one_still_knows() -> None:
    tally = Tally("t", WINDOW, START)
    tally.add_count(3)
    tally.untold = 0
    tally.merge_total(tally.index, 7)
    tally.merge_total(tally.index, 0)
    assert tally.now == 7
    tally.advance_window(START + WINDOW)
    tally.merge_total(tally.index - 1, 9)
    assert (tally.before, tally.now) == (9, 0)
    tally.merge_total(tally.index - 5, 100)
    tally.restore_unsent(tally.index - 5, 100)
    assert (tally.before, tally.now, tally.untold, tally.untold_before) == (9, 0, 0, 0)


def test_what_could_not_be_told_is_told_later_as_long_as_it_matters() -> None:
    tally = Tally("t", WINDOW, START)
    tally.restore_unsent(tally.index, 2)
    tally.restore_unsent(tally.index - 1, 3)
    assert (tally.untold, tally.untold_before) == (2, 3)
    tally.advance_window(START + WINDOW)
    assert (tally.untold, tally.untold_before) == (0, 2)


@pytest.mark.parametrize(("wait_us", "seconds"), [(1, 1), (SECOND_US, 1), (SECOND_US + 1, 2), (61 * SECOND_US, 61)])
def test_retry_after_is_whole_seconds_and_never_too_early(wait_us: int, seconds: int) -> None:
    assert retry_after_s(wait_us) == seconds


def test_a_tenant_is_found_by_id_before_name() -> None:
    tenant, mine, named, usual = uuid4(), *(Allowance(Ceiling(key)) for key in (1, 2, 3))
    policy = LimitPolicy(usual, {str(tenant): mine, "acme": named})
    assert policy.allowance_for(tenant, "acme") == mine
    assert policy.allowance_for(UUID(int=1), "acme") == named
    assert policy.allowance_for(UUID(int=1), "other") == usual
    assert policy.has_named_tenants
    assert not LimitPolicy(usual, {str(tenant): mine}).has_named_tenants
    assert mine.ceiling_for(LimitKind.requests).key == 1
    assert mine.ceiling_for(LimitKind.memories).key is None
