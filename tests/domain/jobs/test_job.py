"""Backoff and slots of background jobs."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.loader import load_policies
from app.domain.jobs.job import JobPolicy, backoff_s, period_slot

POLICY = JobPolicy()
JITTER = st.floats(0, 1, exclude_max=True)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def test_the_file_and_the_defaults_say_the_same() -> None:
    assert load_policies("all-MiniLM-L6-v2").jobs == POLICY
    assert {str(kind): period for kind, period in POLICY.schedule.items()}["ttl"] == 3600


def test_waiting_doubles_up_to_the_most() -> None:
    whole = [backoff_s(attempt, POLICY, 0) * 2 for attempt in (1, 2, 3, 4, 9, 10, 10_000)]
    assert whole == [10, 20, 40, 80, 2560, 3600, 3600]


@given(attempt=st.integers(1, 100), jitter=JITTER)
def test_jitter_takes_at_most_half_away(attempt: int, jitter: float) -> None:
    whole = min(POLICY.backoff_max_s, POLICY.backoff_s * 2 ** (attempt - 1))
    assert whole / 2 <= backoff_s(attempt, POLICY, jitter) <= whole


@given(a=MOMENTS, b=MOMENTS, period=st.integers(1, 10**6), offset=st.integers(0, 10**6))
def test_slots_never_go_back_while_time_does_not(a: datetime, b: datetime, period: int, offset: int) -> None:
    early, late = sorted((a, b))
    offset %= period
    assert period_slot(early, period, offset) <= period_slot(late, period, offset)
    if late - early >= timedelta(seconds=period + 1):
        assert period_slot(early, period, offset) != period_slot(late, period, offset)


@given(now=MOMENTS, period=st.integers(1, 10**6), offset=st.integers(0, 10**6))
def test_a_slot_names_the_instant_its_period_begins(now: datetime, period: int, offset: int) -> None:
    offset %= period
    begins = datetime.fromisoformat(period_slot(now, period, offset))
    assert begins <= now < begins + timedelta(seconds=period)
    assert (int(begins.timestamp()) - offset) % period == 0
    assert period_slot(begins, period, offset) == period_slot(begins + timedelta(seconds=period - 1), period, offset)


def test_tenants_of_other_offsets_change_slots_at_other_times() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert period_slot(noon, 3600, 0) == "2026-01-01T12:00:00+00:00"
    assert period_slot(noon, 3600, 600) == "2026-01-01T11:10:00+00:00"
    assert period_slot(noon.astimezone(), 3600, 0) == period_slot(noon, 3600, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_s": 0},
        {"heartbeat_s": 31},
        {"max_attempts": 0},
        {"sweep_limit": 0},
        {"backoff_max_s": 9},
        {"schedule": {"ttl": 0}},
    ],
)
def test_a_policy_that_cannot_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        JobPolicy(**wrong)  # type: ignore[arg-type]
