"""The time by which rows may be deleted (`docs/contract.md`, Retention)."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class TrustedTime:
    """A time of the database's clock that the process's clock agrees with. Only `GuardedClock` makes one.

    Every cut-off of a sweep is computed from one, so that a wrong clock deletes nothing.
    """

    moment: datetime
