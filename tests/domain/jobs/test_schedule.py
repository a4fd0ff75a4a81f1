"""The spread of tenants over a period."""

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.jobs.job import offset_s

DAY = 86_400


@given(st.uuids(), st.integers(1, 10**6))
def test_an_offset_lies_in_the_period_and_stays(tenant: UUID, period: int) -> None:
    assert 0 <= offset_s(tenant, period) < period
    assert offset_s(tenant, period) == offset_s(UUID(str(tenant)), period)


def test_the_offset_of_a_tenant_does_not_change_between_releases() -> None:
    assert offset_s(UUID("0198c0de-0000-7000-8000-000000000001"), DAY) == 2_303


def test_tenants_are_spread_over_the_day() -> None:
    hours = Counter(offset_s(UUID(int=number), DAY) // 3600 for number in range(2400))
    assert len(hours) == 24
    assert 50 < min(hours.values()) <= max(hours.values()) < 150


@pytest.mark.parametrize("period", [0, -1])
def test_a_period_is_at_least_a_second(period: int) -> None:
    with pytest.raises(ValueError, match="period_s"):
        offset_s(UUID(int=1), period)
