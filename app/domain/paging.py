"""Keyset page cursors. They are opaque to the caller, and the server checks them when they come back."""

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from app.domain.errors import InvalidCursor, InvalidInput
from app.domain.ids import check_moment, check_storable

Position: TypeAlias = tuple[datetime, UUID]
"""The end of a page: the last row's time and id."""


def encode_place(place: Sequence[str]) -> str:
    """Return a URL-safe cursor for `place`, the texts that identify a page's last row."""
    return base64.urlsafe_b64encode(json.dumps(list(place)).encode()).decode().rstrip("=")


def encode_cursor(position: Position) -> str:
    """Return a URL-safe cursor for `position`."""
    return encode_place((position[0].isoformat(), str(position[1])))


def _decode_parts(cursor: str) -> Any:
    raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    return json.loads(raw)


def decode_place(cursor: str | None) -> list[str] | None:
    """Return the place of a checkpoint in a cursor: its id, its thread's UUID and its namespace.

    Return None if there is no cursor. Raise InvalidCursor if the cursor is not one of ours.
    """
    if cursor is None:
        return None
    try:
        checkpoint, thread, ns = _decode_parts(cursor)
        return [check_storable(str(checkpoint)), str(UUID(thread)), check_storable(str(ns))]
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError, InvalidInput) as error:
        raise InvalidCursor() from error


def decode_fact_place(cursor: str | None) -> list[str] | None:
    """Return the place of a fact in a cursor: its topic, thread, rank and id. Raise InvalidCursor."""
    if cursor is None:
        return None
    try:
        topic, thread, rank, identifier = _decode_parts(cursor)
        return [check_storable(str(topic)), check_storable(str(thread)), str(_small(rank)), str(UUID(identifier))]
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError, InvalidInput) as error:
        raise InvalidCursor() from error


def _small(rank: Any) -> int:
    number = int(rank)
    if not 0 <= number <= 1000:
        raise ValueError(rank)
    return number


def decode_cursor(cursor: str | None) -> Position | None:
    """Return the position in a cursor, None if there is no cursor. Raise InvalidCursor if it is not one of ours."""
    if cursor is None:
        return None
    try:
        moment, identifier = _decode_parts(cursor)
        position = datetime.fromisoformat(moment), UUID(identifier)
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise InvalidCursor() from error
    try:
        check_moment(position[0])
    except InvalidInput as error:
        raise InvalidCursor() from error
    return position
