"""Checks of the caller's identifiers, times and JSON: PostgreSQL and a log can hold what passes."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from app.domain.errors import InvalidInput, NulByte

MAX_LENGTH = 200
MOST_LISTED = 50
"""Names that an error lists."""


def check_storable(value: str) -> str:
    """Return `value` unchanged. Raise NulByte if PostgreSQL cannot store it as text."""
    if "\x00" in value or (not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value)):
        raise NulByte()
    return value


def list_names(names: Iterable[str]) -> str:
    """Return valid names for an error: sorted, at most MOST_LISTED, `none` if there are none."""
    found = sorted(names)
    more = len(found) - MOST_LISTED
    return ", ".join([*found[:MOST_LISTED], *([f"and {more} more"] if more > 0 else [])]) or "none"


def check_identifier(value: str) -> str:
    """Return the identifier `value`, opaque text of 1 to MAX_LENGTH characters, unchanged.

    Raise InvalidInput if it is empty, too long, has outer blanks or holds control characters.
    """
    check_storable(value)
    if not 1 <= len(value) <= MAX_LENGTH or value != value.strip() or not value.isprintable():
        raise InvalidInput(f"an identifier has 1 to {MAX_LENGTH} printable characters and no outer blanks")
    return value


_CALENDAR = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


def check_moment(moment: datetime) -> datetime:
    """Return `moment` unchanged. Raise InvalidInput if it has no zone or is outside the years 1 to 9999 in UTC."""
    if moment.tzinfo is None or not _CALENDAR[0] <= moment <= _CALENDAR[1]:
        raise InvalidInput("a time needs a zone and a year from 1 to 9999")
    return moment


CLOCK_SKEW = timedelta(seconds=5)
"""The time by which a caller's clock may be ahead."""


def past_moment(moment: datetime | None, now: datetime, name: str = "created_at") -> datetime:
    """Return a caller's time, at most `now`; None is `now`. Raise InvalidInput if it lies in the future."""
    if moment is None:
        return now
    if check_moment(moment) > now + CLOCK_SKEW:
        raise InvalidInput(f"{name} lies in the future", param=name)
    return min(moment, now)


MAX_JSON_BYTES = 16_384
MAX_JSON_DEPTH = 16


def check_json(value: Any, max_bytes: int = MAX_JSON_BYTES, max_depth: int = MAX_JSON_DEPTH) -> Any:
    """Return `value` unchanged if it can be stored as JSON.

    The default limits are 16 KiB and 16 levels. Raise NulByte for a NUL or lone surrogate. Raise InvalidInput for NaN,
    infinity, and a value that is too large or too deep.
    """
    _check_json_tree(value, max_depth, max_depth)
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except ValueError as error:
        raise InvalidInput("NaN and infinity are not JSON") from error
    if size > max_bytes:
        raise InvalidInput(f"at most {max_bytes} bytes of JSON")
    return value


def _check_json_tree(value: Any, depth: int, most: int) -> None:
    if depth < 0:
        raise InvalidInput(f"JSON is nested deeper than {most} levels")
    if isinstance(value, str):
        check_storable(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            check_storable(key)
            _check_json_tree(inner, depth - 1, most)
    elif isinstance(value, list):
        for inner in value:
            _check_json_tree(inner, depth - 1, most)
