"""The settings of turn memory."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from app.domain.settable import SETTABLE
from app.domain.trusted_time import TrustedTime


@dataclass(frozen=True, slots=True)
class TurnMemoryPolicy:
    """The settings of turn memory (`docs/turn-memory.md`).

    - `category`: a key bound to agents needs an agent that may see this category.
    - `last_turns`: the newest turns of a view; the delta window comes on top.
    - `feedback_items`: the most reactions in a view.
    - `signal_turns`: the most turns whose assistant signals a view has.
    - `days`: older artifacts are in no view and, unless a request says otherwise, in no answer.
    - `keep_days`: older artifacts are deleted; 0 keeps them.
    - `reconcile_every`: fingerprints in a conversation until its buckets are reconciled.
    """

    category: Annotated[str, SETTABLE] = "activity"
    last_turns: Annotated[int, SETTABLE] = 10
    feedback_items: Annotated[int, SETTABLE] = 50
    signal_turns: Annotated[int, SETTABLE] = 16
    days: Annotated[int, SETTABLE] = 365
    keep_days: Annotated[int, SETTABLE] = 0
    reconcile_every: Annotated[int, SETTABLE] = 5

    def __post_init__(self) -> None:
        if not 1 <= self.last_turns <= 16:
            raise ValueError("last_turns must be from 1 to 16")
        if not 1 <= self.feedback_items <= 200 or not 1 <= self.signal_turns <= 100:
            raise ValueError("feedback_items must be from 1 to 200, signal_turns from 1 to 100")
        if not 1 <= self.days <= 3650 or not 0 <= self.keep_days <= 36_500:
            raise ValueError("days must be from 1 to 3650, keep_days from 0 to 36500")
        if not 1 <= self.reconcile_every <= 100:
            raise ValueError("reconcile_every must be from 1 to 100")

    def keep_after(self, now: TrustedTime) -> datetime | None:
        """Return the time from which artifacts are kept; None if all are."""
        return now.moment - timedelta(days=self.keep_days) if self.keep_days else None
