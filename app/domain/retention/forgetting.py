"""The retention policy: how long memories, events and other records are kept."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class ForgettingPolicy:
    """Retention settings: days, counts, and `forget_below`, the importance below which a memory may be forgotten."""

    forget_after_days: int = 60
    forget_below: int = 3
    purge_after_days: int = 30
    max_entries: int = 500
    change_log_revisions: int = 1000
    events_days: int = 90
    idempotency_days: int = 30
    receipts_days: int = 30
    batch: int = 200
    records_batch: int = 1000

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")

    def forget_before(self, now: datetime) -> datetime:
        """Return the cutoff: a memory may be forgotten if its last access and change are before it."""
        return now - timedelta(days=self.forget_after_days)

    def records_before(self, now: datetime) -> tuple[datetime, datetime]:
        """Return two cutoffs: of events, and of idempotency records and finished jobs. Older rows are deleted."""
        return now - timedelta(days=self.events_days), now - timedelta(days=self.idempotency_days)

    def receipts_before(self, now: datetime) -> datetime:
        """Return the cutoff of receipts: older ones are deleted."""
        return now - timedelta(days=self.receipts_days)

    def purge_before(self, now: datetime) -> datetime:
        """Return the cutoff of removed facts: those removed before it are deleted for good."""
        return now - timedelta(days=self.purge_after_days)

    def purge_at(self, now: datetime) -> datetime:
        """Return the time until which a memory that is soft-deleted at `now` can be restored."""
        return now + timedelta(days=self.purge_after_days)
