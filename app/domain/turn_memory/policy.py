"""The settings of turn memory."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from app.domain.settable import SETTABLE, Range, RangedPolicy
from app.domain.trusted_time import TrustedTime


@dataclass(frozen=True, slots=True)
class TurnMemoryPolicy(RangedPolicy):
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
    last_turns: Annotated[int, SETTABLE, Range(1, 16)] = 10
    feedback_items: Annotated[int, SETTABLE, Range(1, 200)] = 50
    signal_turns: Annotated[int, SETTABLE, Range(1, 100)] = 16
    days: Annotated[int, SETTABLE, Range(1, 3_650)] = 365
    keep_days: Annotated[int, SETTABLE, Range(0, 36_500)] = 0
    reconcile_every: Annotated[int, SETTABLE, Range(1, 100)] = 5

    def keep_after(self, now: TrustedTime) -> datetime | None:
        """Return the time from which artifacts are kept; None if all are."""
        return now.moment - timedelta(days=self.keep_days) if self.keep_days else None
