"""Checks of the caller's identifiers, times and JSON: PostgreSQL and a log can hold what passes.

The module uses the standard library alone, because the domain of the server uses it.
"""

import json
from datetime import UTC, date, datetime, time
from typing import Any

from mnema_wire.limits import MAX_IDENTIFIER, MAX_JSON_BYTES, MAX_JSON_DEPTH


class NotStorable(ValueError):
    """A NUL character or lone surrogate cannot be stored."""


def check_storable(value: str) -> str:
    """Return `value` unchanged. Raise NotStorable if PostgreSQL cannot store it as text."""
    if "\x00" in value or (not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value)):
        raise NotStorable(NotStorable.__doc__)
    return value


def check_identifier(value: str) -> str:
    """Return the identifier `value`, opaque text of 1 to MAX_IDENTIFIER characters, unchanged.

    Raise ValueError if it is empty, too long, has outer blanks or holds control characters.
    """
    check_storable(value)
    if not 1 <= len(value) <= MAX_IDENTIFIER or value != value.strip() or not value.isprintable():
        raise ValueError(f"an identifier has 1 to {MAX_IDENTIFIER} printable characters and no outer blanks")
    return value


_CALENDAR = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


def check_moment(moment: datetime) -> datetime:
    """Return `moment` unchanged. Raise ValueError if it has no zone or is outside the years 1 to 9999 in UTC."""
    if moment.tzinfo is None or not _CALENDAR[0] <= moment <= _CALENDAR[1]:
        raise ValueError("a time needs a zone and a year from 1 to 9999")
    return moment


def parse_moment(value: str | date) -> datetime:
    """Return a datetime in UTC for an ISO 8601 text or a date; a datetime unchanged. Raise ValueError.

    A date without a time is midnight UTC. A time without a zone is UTC.
    """
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, date) or len(value) == len("2026-01-31"):
            day = value if isinstance(value, date) else date.fromisoformat(value)
            return check_moment(datetime.combine(day, time(), UTC))
        moment = datetime.fromisoformat(value)
        # PostgreSQL takes zone offsets of up to 16 hours, ISO 8601 allows 24: convert to UTC here
        return check_moment(moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except ValueError:
        # the message does not repeat the value
        raise ValueError("expected an ISO 8601 date or time in the years 1 to 9999") from None


def check_json(value: Any, max_bytes: int = MAX_JSON_BYTES, max_depth: int = MAX_JSON_DEPTH) -> Any:
    """Return `value` unchanged if it can be stored as JSON.

    The default limits are 16 KiB and 16 levels. Raise NotStorable for a NUL or lone surrogate. Raise ValueError for
    NaN, infinity, and a value that is too large or too deep.
    """
    _check_json_tree(value, max_depth, max_depth)
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except ValueError as error:
        raise ValueError("NaN and infinity are not JSON") from error
    if size > max_bytes:
        raise ValueError(f"at most {max_bytes} bytes of JSON")
    return value


def _check_json_tree(value: Any, depth: int, most: int) -> None:
    if depth < 0:
        raise ValueError(f"JSON is nested deeper than {most} levels")
    if isinstance(value, str):
        check_storable(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            check_storable(key)
            _check_json_tree(inner, depth - 1, most)
    elif isinstance(value, list):
        for inner in value:
            _check_json_tree(inner, depth - 1, most)
