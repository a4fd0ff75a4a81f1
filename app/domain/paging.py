"""Keyset page cursors: opaque to the caller, checked on the way back."""

import base64
import binascii
import json
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from app.domain.errors import InvalidCursor, InvalidInput
from app.domain.ids import check_moment

Position: TypeAlias = tuple[datetime, UUID]
"""Where a page ended: the last row's time and id."""


def encode_cursor(position: Position) -> str:
    """The position as a URL-safe string."""
    raw = json.dumps([position[0].isoformat(), str(position[1])]).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> Position | None:
    """The position in a cursor of ours, None for none; raises InvalidCursor."""
    if cursor is None:
        return None
    try:
        raw = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        moment, identifier = json.loads(raw)
        position = datetime.fromisoformat(moment), UUID(identifier)
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise InvalidCursor() from error
    try:
        check_moment(position[0])
    except InvalidInput as error:
        raise InvalidCursor() from error
    return position
