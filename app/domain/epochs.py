"""The order of transactions over the whole life of the data, in whichever databases it is spent.

A transaction id of PostgreSQL means nothing in another cluster. So nothing outside `migrations/sql/0001/epochs.sql`
reads one, and a place in that order is a `Stamp`, which names its epoch.
"""

from dataclasses import dataclass
from uuid import UUID

from app.domain.errors import CursorOfOtherDatabase

MAX_STAMP = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Stamp:
    """A place in the order of transactions. `epoch`: the epoch in which the database told it."""

    epoch: UUID
    number: int

    def require_epoch(self, present: UUID) -> None:
        """Raise CursorOfOtherDatabase if the database that told this place is not the one of the present epoch."""
        if self.epoch != present:
            raise CursorOfOtherDatabase()


@dataclass(frozen=True, slots=True)
class ChangePosition:
    """A place in the order of changes: a transaction's stamp, and the id of one of its records.

    Before the first change the stamp's number is 0.
    """

    stamp: Stamp
    record: UUID

    def is_from(self, earlier: "ChangePosition") -> bool:
        """Return True if this place is `earlier` or behind it, as far as one epoch can tell."""
        same = self.stamp.epoch == earlier.stamp.epoch
        return same and (self.stamp.number, self.record) >= (earlier.stamp.number, earlier.record)
