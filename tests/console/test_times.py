"""Times as people read them."""

from datetime import UTC, datetime, timedelta

import pytest

from console.times import format_distance, format_time

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("distance", "words"),
    [
        (timedelta(seconds=20), "just now"),
        (timedelta(seconds=50), "1 minute ago"),
        (timedelta(minutes=59), "59 minutes ago"),
        (timedelta(hours=1), "1 hour ago"),
        (timedelta(days=29), "29 days ago"),
        (timedelta(days=61), "2 months ago"),
        (timedelta(days=800), "2 years ago"),
        (-timedelta(days=2, hours=3), "in 2 days"),
        (-timedelta(seconds=3), "just now"),
    ],
)
def test_a_distance_has_one_unit(distance: timedelta, words: str) -> None:
    assert format_distance(NOW - distance, NOW) == words


def test_no_time_is_never() -> None:
    assert format_distance(None, NOW) == format_time(None) == "never"
    assert format_time(NOW) == "2026-11-29 12:00 UTC"
