"""Episodes: summaries of a part of a conversation, one or two sentences in the past tense."""

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
    """The settings of episodes.

    A job reads at most `window` turns in each of its `rounds`. A new episode joins one of the last `join_hours` if
    their cosine is at least `join_at`.
    """

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
        """The pause before a thread is read again."""
        return Cooldown(self.turns, self.minutes)


def add_date_prefix(text: str, at: datetime) -> str:
    """Put the day and week before the episode's text, so that a search finds them."""
    return f"On {at.day} {at:%B %Y} (W{at.isocalendar().week}, {at.isocalendar().year}): {text}"


def strip_date_prefix(text: str) -> str:
    """Remove the day and week, so that they do not influence the similarity of two episodes."""
    return _WHEN.sub("", text, count=1)
