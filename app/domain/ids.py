"""Checks of the caller's identifiers, times and JSON, with the errors of the domain."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from mnema_wire import checks
from mnema_wire.limits import MAX_JSON_BYTES, MAX_JSON_DEPTH

from app.domain.errors import InvalidInput, NulByte

MOST_LISTED = 50
"""Names that an error lists."""


def check_storable(value: str) -> str:
    """Return `value` unchanged. Raise NulByte if PostgreSQL cannot store it as text."""
    try:
        return checks.check_storable(value)
    except checks.NotStorable as error:
        raise NulByte() from error


def list_names(names: Iterable[str]) -> str:
    """Return valid names for an error: sorted, at most MOST_LISTED, `none` if there are none."""
    found = sorted(names)
    more = len(found) - MOST_LISTED
    return ", ".join([*found[:MOST_LISTED], *([f"and {more} more"] if more > 0 else [])]) or "none"


def check_identifier(value: str) -> str:
    """Return the identifier `value` unchanged. Raise InvalidInput if `mnema_wire.checks` refuses it."""
    try:
        return checks.check_identifier(value)
    except ValueError as error:
        raise _invalid(error) from error


def check_moment(moment: datetime) -> datetime:
    """Return `moment` unchanged. Raise InvalidInput if it has no zone or is outside the years 1 to 9999 in UTC."""
    try:
        return checks.check_moment(moment)
    except ValueError as error:
        raise _invalid(error) from error


CLOCK_SKEW = timedelta(seconds=5)
"""The time by which a caller's clock may be ahead."""


def past_moment(moment: datetime | None, now: datetime, name: str = "created_at") -> datetime:
    """Return a caller's time, at most `now`; None is `now`. Raise InvalidInput if it lies in the future."""
    if moment is None:
        return now
    if check_moment(moment) > now + CLOCK_SKEW:
        raise InvalidInput(f"{name} lies in the future", param=name)
    return min(moment, now)


def check_json(value: Any, max_bytes: int = MAX_JSON_BYTES, max_depth: int = MAX_JSON_DEPTH) -> Any:
    """Return `value` unchanged if it can be stored as JSON.

    The default limits are 16 KiB and 16 levels. Raise NulByte for a NUL or lone surrogate. Raise InvalidInput for NaN,
    infinity, and a value that is too large or too deep.
    """
    try:
        return checks.check_json(value, max_bytes, max_depth)
    except ValueError as error:
        raise _invalid(error) from error


def _invalid(error: ValueError) -> InvalidInput:
    return NulByte() if isinstance(error, checks.NotStorable) else InvalidInput(str(error))
