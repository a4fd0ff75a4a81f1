"""The retention policy: how long memories, events and other records are kept."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final

from app.domain.settable import DAYS, Settable
from app.domain.trusted_time import TrustedTime

WEEK_DAYS: Final = 7
"""The width of a partition of events and receipts, in days."""
GRACE_DAYS: Final = 2 * WEEK_DAYS
"""Days over the limit after which rows are deleted that nobody dropped with their week."""


@dataclass(frozen=True, slots=True)
class LongestKept:
    """The longest time, in days, that any tenant keeps events and receipts."""

    events: int
    receipts: int


@dataclass(frozen=True, slots=True)
class ForgettingPolicy:
    """Retention settings: days, counts, and `forget_below`, the importance below which a memory may be forgotten."""

    forget_after_days: Annotated[int, DAYS] = 60
    forget_below: Annotated[int, Settable(1, 6)] = 3
    purge_after_days: Annotated[int, DAYS] = 30
    max_entries: Annotated[int, Settable(1, 1_000_000)] = 500
    change_log_revisions: int = 1000
    events_days: Annotated[int, DAYS] = 90
    idempotency_days: int = 30
    receipts_days: Annotated[int, DAYS] = 30
    batch: int = 200
    records_batch: int = 1000

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")

    def forget_before(self, now: TrustedTime) -> datetime:
        """Return the cutoff: a memory may be forgotten if its last access and change are before it."""
        return now.moment - timedelta(days=self.forget_after_days)

    def records_before(self, now: TrustedTime) -> tuple[datetime, datetime]:
        """Return two cutoffs: of batches, dead jobs and model calls; and of idempotency records and finished jobs."""
        return now.moment - timedelta(days=self.events_days), now.moment - timedelta(days=self.idempotency_days)

    def events_before(self, now: TrustedTime, longest: LongestKept) -> datetime:
        """Return the cutoff of events that are deleted row by row. `longest`: of all tenants."""
        return now.moment - timedelta(days=_days_until_deletion(self.events_days, longest.events))

    def receipts_before(self, now: TrustedTime, longest: LongestKept) -> datetime:
        """Return the cutoff of receipts that are deleted row by row. `longest`: of all tenants."""
        return now.moment - timedelta(days=_days_until_deletion(self.receipts_days, longest.receipts))

    def purge_before(self, now: TrustedTime) -> datetime:
        """Return the cutoff of removed facts: those removed before it are deleted for good."""
        return now.moment - timedelta(days=self.purge_after_days)

    def purge_at(self, now: datetime) -> datetime:
        """Return the time until which a memory that is soft-deleted at `now` can be restored."""
        return now + timedelta(days=self.purge_after_days)


def _days_until_deletion(days: int, longest: int) -> int:
    """Return the age in days at which a tenant's rows are deleted one by one.

    A week is dropped once all of it is older than `longest`. If the rows leave with their week before the grace is
    over, nobody needs to delete them.
    """
    return days + GRACE_DAYS if longest + WEEK_DAYS < days + GRACE_DAYS else days
