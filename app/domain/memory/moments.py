"""The times that a question is about: what Mnema knew then, and what was so then (`docs/time.md`)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.errors import AsOfInFuture, AsOfNeedsUser, InvalidCursor, InvalidInput
from app.domain.ids import check_moment
from app.domain.paging import decode_parts, encode_place

_IN_TIME: Final = "in time"
"""The first part of a cursor of a list in time."""


@dataclass(frozen=True, slots=True)
class Moments:
    """The times of a question. `as_of` None: what Mnema knows now. `valid_at` None: whenever it was so."""

    as_of: datetime | None = None
    valid_at: datetime | None = None

    @property
    def is_now(self) -> bool:
        """True for an ordinary question, about what Mnema knows now."""
        return self.as_of is None and self.valid_at is None

    def require_past(self, now: datetime) -> None:
        """Raise AsOfInFuture if `as_of` is later than `now`."""
        if self.as_of is not None and self.as_of > now:
            raise AsOfInFuture(f"as_of {self.as_of.isoformat()} lies in the future; it is {now.isoformat()}")

    def require_user(self, user_id: str | None) -> None:
        """Raise AsOfNeedsUser if the question is about another time and names no user."""
        if not self.is_now and user_id is None:
            raise AsOfNeedsUser()

    def mark_cursor(self, cursor: str) -> str:
        """Return a cursor of a list that keeps these times; the cursor itself if the list is of now."""
        if self.is_now:
            return cursor
        texts = ["" if moment is None else moment.isoformat() for moment in (self.as_of, self.valid_at)]
        return encode_place((_IN_TIME, texts[0], texts[1], cursor))

    def resume_at(self, cursor: str | None) -> tuple["Moments", str | None]:
        """Return the times of a cursor, and the cursor without them. Without a cursor, these times count.

        Raise InvalidCursor if the cursor is of a list with other times. These may be left out.
        """
        if cursor is None:
            return self, None
        moments, place = _decode_moments(cursor)
        if self not in (NOW, moments):
            raise InvalidCursor("the cursor is of a list with another as_of or valid_at")
        return moments, place


NOW = Moments()
"""The times of an ordinary question."""


def _decode_moments(cursor: str) -> tuple[Moments, str]:
    """Return the times of a cursor, NOW if it has none, and the cursor without them. Raise InvalidCursor."""
    try:
        parts = decode_parts(cursor)
        if not isinstance(parts, list) or not parts or parts[0] != _IN_TIME:
            return NOW, cursor
        _, as_of, valid_at, place = parts
        times = [check_moment(datetime.fromisoformat(text)) if text else None for text in (as_of, valid_at)]
        if not any(times) or not isinstance(place, str):
            raise ValueError("no cursor of a list in time")
        return Moments(*times), place
    except (ValueError, TypeError, RecursionError, InvalidInput) as error:
        raise InvalidCursor() from error
