"""Keyset page cursors. They are opaque to the caller, and the server checks them when they come back."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar
from uuid import UUID

from app.domain.epochs import MAX_STAMP, ChangePosition, Stamp
from app.domain.errors import InvalidCursor, InvalidInput
from app.domain.ids import check_moment, check_storable

T = TypeVar("T")

Position: TypeAlias = tuple[datetime, UUID]
"""The end of a page: the last row's time and id."""

TurnPosition: TypeAlias = tuple[int | None, datetime, UUID]
"""The end of a page of turns: the last turn's place in the thread if it has one, its time and its id."""

UsePosition: TypeAlias = tuple[UUID, int]
"""The end of a page of uses: the last one's receipt, and its place in the receipt."""


@dataclass(frozen=True, slots=True)
class UsagePlace:
    """A place in the usage of all tenants: the name of the tenant before, and the last row's tenant and day.

    The id says whose the day is, because a tenant may be created between the two names later.
    """

    behind: str | None = None
    tenant_id: UUID | None = None
    day: date | None = None


MAX_SEQ: Final = 2**62
"""The largest place of a turn in its thread."""
_SEQ: Final = re.compile("[0-9]{1,19}")
_RANK: Final = re.compile("[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. `next_cursor` is None on the last page."""

    items: list[T]
    next_cursor: str | None


def cut_page(rows: Sequence[T], limit: int, encode_row: Callable[[T], str]) -> Page[T]:
    """Return the first `limit` rows. If there are more, `encode_row` makes the cursor of the last one."""
    items = list(rows[:limit])
    return Page(items, encode_row(items[-1]) if len(rows) > limit else None)


def encode_place(place: Sequence[str]) -> str:
    """Return a URL-safe cursor for `place`, the texts that identify a page's last row."""
    return base64.urlsafe_b64encode(json.dumps(list(place)).encode()).decode().rstrip("=")


def encode_cursor(position: Position) -> str:
    """Return a URL-safe cursor for `position`."""
    return encode_place((position[0].isoformat(), str(position[1])))


def decode_parts(cursor: str) -> Any:
    """Return what a cursor holds, any JSON. Raise ValueError (or RecursionError) if it holds none."""
    raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    return json.loads(raw)


def decode_place(cursor: str | None) -> list[str] | None:
    """Return the place of a checkpoint in a cursor: its id, its thread's UUID and its namespace.

    Return None if there is no cursor. Raise InvalidCursor if the cursor is not one of ours.
    """
    if cursor is None:
        return None
    try:
        checkpoint, thread, ns = decode_parts(cursor)
        return [check_storable(str(checkpoint)), str(UUID(thread)), check_storable(str(ns))]
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError, InvalidInput) as error:
        raise InvalidCursor() from error


def decode_text(cursor: str | None) -> str | None:
    """Return the text in a cursor, such as a path. None if there is no cursor. Raise InvalidCursor."""
    if cursor is None:
        return None
    try:
        (text,) = decode_parts(cursor)
        if not isinstance(text, str):
            raise TypeError("not a text")
        return check_storable(text)
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError, InvalidInput) as error:
        raise InvalidCursor() from error


def decode_fact_place(cursor: str | None) -> list[str] | None:
    """Return the place of a fact in a cursor: its topic, thread, rank and id. Raise InvalidCursor."""
    if cursor is None:
        return None
    try:
        topic, thread, rank, identifier = decode_parts(cursor)
        return [check_storable(str(topic)), check_storable(str(thread)), str(_small(rank)), str(UUID(identifier))]
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError, InvalidInput) as error:
        raise InvalidCursor() from error


def _small(rank: Any) -> int:
    if not isinstance(rank, str) or not _RANK.fullmatch(rank) or int(rank) > 1000:
        raise ValueError("not a rank")
    return int(rank)


def decode_cursor(cursor: str | None) -> Position | None:
    """Return the position in a cursor, None if there is no cursor. Raise InvalidCursor if it is not one of ours."""
    if cursor is None:
        return None
    try:
        moment, identifier = decode_parts(cursor)
        position = datetime.fromisoformat(moment), UUID(identifier)
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise InvalidCursor() from error
    try:
        check_moment(position[0])
    except InvalidInput as error:
        raise InvalidCursor() from error
    return position


def encode_change_cursor(position: ChangePosition) -> str:
    """Return a URL-safe cursor for `position`."""
    return encode_place((str(position.stamp.epoch), str(position.stamp.number), str(position.record)))


def decode_change_cursor(cursor: str | None) -> ChangePosition | None:
    """Return the position in a cursor, None if there is no cursor. Raise InvalidCursor if it is not one of ours."""
    if cursor is None:
        return None
    try:
        epoch, stamp, identifier = decode_parts(cursor)
        if not isinstance(stamp, str) or not _SEQ.fullmatch(stamp) or int(stamp) > MAX_STAMP:
            raise ValueError("not a stamp")
        return ChangePosition(Stamp(UUID(epoch), int(stamp)), UUID(identifier))
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise InvalidCursor() from error


def encode_turn_cursor(position: TurnPosition) -> str:
    """Return a URL-safe cursor for `position`."""
    seq, created_at, id_ = position
    return encode_place(("" if seq is None else str(seq), created_at.isoformat(), str(id_)))


def decode_turn_cursor(cursor: str | None) -> TurnPosition | None:
    """Return the position in a cursor, None if there is no cursor. Raise InvalidCursor if it is not one of ours."""
    if cursor is None:
        return None
    try:
        seq, moment, identifier = decode_parts(cursor)
        place = _decode_seq(seq), check_moment(datetime.fromisoformat(moment)), UUID(identifier)
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError, InvalidInput) as error:
        raise InvalidCursor() from error
    return place


def _decode_seq(seq: Any) -> int | None:
    """Return the number, None for an empty text. Raise ValueError if it is no place in a thread."""
    if seq == "":
        return None
    if not isinstance(seq, str) or not _SEQ.fullmatch(seq) or int(seq) > MAX_SEQ:
        raise ValueError("not a place in a thread")
    return int(seq)


def encode_use_cursor(position: UsePosition) -> str:
    """Return a URL-safe cursor for `position`."""
    return encode_place((str(position[0]), str(position[1])))


def decode_use_cursor(cursor: str | None) -> UsePosition | None:
    """Return the position in a cursor, None if there is no cursor. Raise InvalidCursor if it is not one of ours."""
    if cursor is None:
        return None
    try:
        receipt, place = decode_parts(cursor)
        if not isinstance(place, str) or not _RANK.fullmatch(place):
            raise ValueError("not a place in a receipt")
        return UUID(receipt), int(place)
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise InvalidCursor() from error


def decode_day(cursor: str | None) -> date | None:
    """Return the day in a cursor, None if there is no cursor. Raise InvalidCursor if it is not one of ours."""
    if cursor is None:
        return None
    try:
        (day,) = decode_parts(cursor)
        return date.fromisoformat(day)
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise InvalidCursor() from error


def encode_usage_place(place: UsagePlace) -> str:
    """Return a URL-safe cursor for `place`."""
    parts = place.tenant_id, place.day
    return encode_place([place.behind or "", *("" if part is None else str(part) for part in parts)])


def decode_usage_place(cursor: str | None) -> UsagePlace:
    """Return the place in a cursor, the first one without a cursor. Raise InvalidCursor if it is not one of ours."""
    if cursor is None:
        return UsagePlace()
    try:
        behind, tenant_id, day = decode_parts(cursor)
        if not isinstance(behind, str):
            raise TypeError("not a name")
        return UsagePlace(
            check_storable(behind) or None,
            UUID(tenant_id) if tenant_id else None,
            date.fromisoformat(day) if day else None,
        )
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError, InvalidInput) as error:
        raise InvalidCursor() from error
