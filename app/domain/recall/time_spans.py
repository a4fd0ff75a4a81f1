"""Time spans mentioned in a question ("on 7 May 2023", "last week", "two months ago"), in the caller's time zone."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from app.domain.english_words import MONTHS

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_NUMBERS |= {"nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "couple of": 2, "few": 3}
# "may" and "march" are also verbs, so a month must start with a capital letter
_MONTH = "(?P<month>" + "|".join(name.capitalize() for name in MONTHS) + ")"
_DAY = r"(?P<day>[12]?\d|3[01])(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_ISO = re.compile(rf"\b{_YEAR}-(?P<month>\d\d)-(?P<day>\d\d)\b")
_DAY_FIRST = rf"{_DAY}(?: of)? {_MONTH}"
_MONTH_FIRST = rf"{_MONTH}(?: {_DAY})?".replace("month", "month2").replace("<day>", "<day2>")
_NAMED = re.compile(rf"\b(?:{_DAY_FIRST}|{_MONTH_FIRST})\b,?(?: {_YEAR}\b)?")
_IN_YEAR = re.compile(rf"\b(?:in|during|of|since) {_YEAR}\b")
_COUNT = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_AGO = re.compile(rf"\b(?P<count>\d{{1,3}}|{_COUNT}) (?P<unit>day|week|month|year)s? ago\b")
_NEAR = re.compile(
    r"\b(?P<which>last|this|past) (?P<unit>weekend|week|month|year|night)\b|\b(?P<day>today|yesterday|tonight)\b"
)
_WEEKDAY = re.compile(r"\b(?:last|on|this) (?P<weekday>" + "|".join(_WEEKDAYS) + r")\b")

BLUR = 3.0
"""Days outside a short span after which closeness falls to 1/e. People are vague, and mention things later."""


@dataclass(frozen=True, slots=True)
class Span:
    """The days from `first` to `last`, both included."""

    first: date
    last: date

    def closeness_to(self, day: date) -> float:
        """Return the closeness of `day`, 0 to 1: 1 inside the span.

        Outside a span of more than 8 days it is 0; outside a shorter one it decays.
        """
        if self.first <= day <= self.last:
            return 1.0
        if (self.last - self.first).days > 7:
            return 0.0
        gap = (self.first - day).days if day < self.first else (day - self.last).days
        return math.exp(-gap / BLUR) if gap < 10 * BLUR else 0.0


def find_spans(text: str, now: datetime, zone: tzinfo) -> list[Span]:
    """Return every span that `text` mentions, as a person in `zone` means it at `now`.

    A day or month without a year is the latest one. Days that do not exist are no spans.
    """
    today = now.astimezone(zone).date()
    lower = text.lower()
    spans = [*_dated_spans(text, today), *_relative_spans(lower, today)]
    if not spans:
        spans = [Span(date(int(m["year"]), 1, 1), date(int(m["year"]), 12, 31)) for m in _IN_YEAR.finditer(lower)]
    return spans


def nearest_closeness(spans: list[Span], at: datetime, zone: tzinfo) -> float:
    """Return the closeness of `at`, 0 to 1, to the nearest of the spans; 0 without spans."""
    try:
        day = at.astimezone(zone).date()
    except OverflowError:  # the first or last day of the calendar
        return 0.0
    return max((span.closeness_to(day) for span in spans), default=0.0)


def _dated_spans(text: str, today: date) -> Iterator[Span]:
    for match in _ISO.finditer(text):
        yield from _day_spans(int(match["year"]), int(match["month"]), int(match["day"]))
    for match in _NAMED.finditer(text):
        month = MONTHS.index((match["month"] or match["month2"]).lower()) + 1
        day = match["day"] or match["day2"]
        year = int(match["year"]) if match["year"] else today.year - ((month, int(day or 1)) > (today.month, today.day))
        yield from _day_spans(year, month, int(day)) if day else [_month_span(year, month)]


def _day_spans(year: int, month: int, day: int) -> list[Span]:
    try:
        return [Span(date(year, month, day), date(year, month, day))]
    except ValueError:  # 31 June
        return []


def _month_span(year: int, month: int) -> Span:
    following = date(year + month // 12, month % 12 + 1, 1)
    return Span(date(year, month, 1), following - timedelta(days=1))


def _relative_spans(lower: str, today: date) -> Iterator[Span]:
    for match in _AGO.finditer(lower):
        count = int(match["count"]) if match["count"].isdecimal() else _NUMBERS[match["count"]]
        yield _span_ago(today, count, match["unit"])
    for match in _NEAR.finditer(lower):
        if match["day"] or match["unit"] == "night":
            back = match["day"] == "yesterday" or (match["unit"] == "night" and match["which"] != "this")
            yield _span_ago(today, int(back), "day")
        elif match["unit"] == "weekend":
            saturday = today - timedelta(days=(today.weekday() + 2) % 7)
            yield Span(saturday, saturday + timedelta(days=1))
        else:
            yield _span_ago(today, int(match["which"] != "this"), match["unit"])
    for match in _WEEKDAY.finditer(lower):
        back = (today.weekday() - _WEEKDAYS.index(match["weekday"])) % 7 or 7
        yield _span_ago(today, back, "day")


def _span_ago(today: date, count: int, unit: str) -> Span:
    if unit == "day":
        return Span(today - timedelta(days=count), today - timedelta(days=count))
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * count)
        return Span(monday, monday + timedelta(days=6))
    if unit == "month":
        months = today.year * 12 + today.month - 1 - count
        return _month_span(months // 12, months % 12 + 1)
    return Span(date(today.year - count, 1, 1), date(today.year - count, 12, 31))
