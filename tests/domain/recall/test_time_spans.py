"""Time spans mentioned in a question."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.recall.time_spans import Span, find_spans, nearest_closeness

NOW = datetime(2023, 8, 15, 12, tzinfo=UTC)  # a Tuesday


def span(first: str, last: str | None = None) -> Span:
    """Return a span from ISO dates."""
    return Span(date.fromisoformat(first), date.fromisoformat(last or first))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What did Maya do on 7 May 2023?", [span("2023-05-07")]),
        ("the 3rd of July", [span("2023-07-03")]),
        ("May 7th, 2022 was warm", [span("2022-05-07")]),
        ("on December 24", [span("2022-12-24")]),  # the latest one
        ("on August 15", [span("2023-08-15")]),
        ("in June?", [span("2023-06-01", "2023-06-30")]),
        ("in February 2024", [span("2024-02-01", "2024-02-29")]),
        ("around 2023-01-05", [span("2023-01-05")]),
        ("in 2022", [span("2022-01-01", "2022-12-31")]),
        ("in May 2022 and in June 2022", [span("2022-05-01", "2022-05-31"), span("2022-06-01", "2022-06-30")]),
        ("today", [span("2023-08-15")]),
        ("Yesterday", [span("2023-08-14")]),
        ("last night", [span("2023-08-14")]),
        ("last week", [span("2023-08-07", "2023-08-13")]),
        ("this week", [span("2023-08-14", "2023-08-20")]),
        ("last weekend", [span("2023-08-12", "2023-08-13")]),
        ("last month", [span("2023-07-01", "2023-07-31")]),
        ("last year", [span("2022-01-01", "2022-12-31")]),
        ("three days ago", [span("2023-08-12")]),
        ("a couple of weeks ago", [span("2023-07-31", "2023-08-06")]),
        ("8 months ago", [span("2022-12-01", "2022-12-31")]),
        ("on Friday", [span("2023-08-11")]),
        ("last Tuesday", [span("2023-08-08")]),
        ("What may happen, and who may march?", []),
        ("31 June 2023 and 2023-02-30", []),
        ("room 2022, 15 people, 3 ideas", []),
        ("", []),
    ],
)
def test_what_a_question_speaks_of(text: str, expected: list[Span]) -> None:
    assert find_spans(text, NOW, UTC) == expected


def test_a_day_is_the_askers() -> None:
    late = datetime(2023, 8, 15, 23, 30, tzinfo=UTC)
    assert find_spans("today", late, ZoneInfo("Asia/Tokyo")) == [span("2023-08-16")]
    assert find_spans("today", late, ZoneInfo("America/Lima")) == [span("2023-08-15")]
    assert nearest_closeness([span("2023-08-16")], late, ZoneInfo("Asia/Tokyo")) == 1
    assert nearest_closeness([span("2023-08-16")], late, UTC) < 1


def test_closeness_fades_beside_a_short_span_and_ends_beside_a_long_one() -> None:
    day, month = [span("2023-05-07")], [span("2023-05-01", "2023-05-31")]

    def at(found: list[Span], text: str) -> float:
        return nearest_closeness(found, datetime.fromisoformat(text).replace(tzinfo=UTC), UTC)

    assert at(day, "2023-05-07T23:59") == 1
    assert 1 > at(day, "2023-05-08") > at(day, "2023-05-10") > 0.1
    assert at(day, "2023-05-06") == at(day, "2023-05-08")
    assert at(day, "2023-09-01") == 0
    assert (at(month, "2023-05-31T12:00"), at(month, "2023-06-01")) == (1, 0)
    assert nearest_closeness([], NOW, UTC) == 0


@given(
    st.text(alphabet="0123456789-ago may MayJune lastweekyearsdn,", max_size=60), st.datetimes(timezones=st.just(UTC))
)
def test_no_text_and_no_time_breaks_it(text: str, at: datetime) -> None:
    for zone in (UTC, ZoneInfo("Pacific/Kiritimati"), ZoneInfo("Pacific/Niue")):
        found = find_spans(text, NOW, zone)
        assert all(s.first <= s.last for s in found)
        assert 0 <= nearest_closeness([*found, span("2023-08-15")], at, zone) <= 1


@given(st.integers(0, 999), st.sampled_from(["day", "week", "month", "year"]))
def test_long_ago_is_long_ago(count: int, unit: str) -> None:
    [found] = find_spans(f"{count} {unit}s ago", NOW, UTC)
    assert found.first <= NOW.date() - timedelta(days=count * {"day": 1, "week": 6, "month": 27, "year": 364}[unit])
