"""The times that a question is about: what Mnema knew then, and what was so then (`docs/time.md`)."""

from dataclasses import dataclass
from datetime import datetime

from app.domain.errors import AsOfInFuture, AsOfNeedsUser


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


NOW = Moments()
"""The times of an ordinary question."""
