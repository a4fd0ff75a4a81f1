"""Episodes: what a stretch of conversation came to, in a sentence or two of the past (SPEC §7; seed 003 §9)."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.reflection.transcript import Cooldown, check_rounds

MAX_TAGS: Final = 5
MAX_TAG: Final = 40
_WHEN: Final = re.compile(r"On \d{1,2} \w+ \d{4} \(W\d{1,2}, \d{4}\): ")


@dataclass(frozen=True, slots=True)
class EpisodePolicy:
    """`window`: turns read at most in one of `rounds`; an episode joins one of the last `join_hours` from cosine
    `join_at` up."""

    turns: int = 3
    minutes: int = 10
    rounds: int = 4
    window: int = 10
    per_user_day: int = 5
    join_hours: int = 48
    join_at: float = 0.90
    category: str = "event"

    def __post_init__(self) -> None:
        check_rounds(self.rounds)
        if not 1 <= self.window <= 50 or self.per_user_day < 0 or self.join_hours < 0:
            raise ValueError("window must be from 1 to 50, per_user_day and join_hours at least 0")
        if not 0.5 <= self.join_at <= 1:
            raise ValueError("join_at must be from 0.5 to 1")
        _ = self.cooldown

    @property
    def cooldown(self) -> Cooldown:
        """When a thread is read again."""
        return Cooldown(self.turns, self.minutes)


def add_date_prefix(text: str, at: datetime) -> str:
    """The episode with its day and week before it, so that both are found and read."""
    return f"On {at.day} {at:%B %Y} (W{at.isocalendar().week}, {at.isocalendar().year}): {text}"


def strip_date_prefix(text: str) -> str:
    """What it says without that: two days are no reason to call two episodes near."""
    return _WHEN.sub("", text, count=1)
