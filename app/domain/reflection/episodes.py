"""Episodes: summaries of a part of a conversation, one or two sentences in the past tense."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from app.domain.reflection.transcript import MAX_ROUNDS, Cooldown
from app.domain.settable import COUNT, HOURS, MINUTES, SETTABLE, Range, RangedPolicy

MAX_TAGS: Final = 5
MAX_TAG: Final = 40
_WHEN: Final = re.compile(r"On \d{1,2} \w+ \d{4} \(W\d{1,2}, \d{4}\): ")


@dataclass(frozen=True, slots=True)
class EpisodePolicy(RangedPolicy):
    """The settings of episodes.

    A job reads at most `window` turns in each of its `rounds`. A new episode joins one of the last `join_hours` if
    their cosine is at least `join_at`.
    """

    turns: Annotated[int, COUNT, Range(1)] = 3
    minutes: Annotated[int, MINUTES, Range(1)] = 10
    rounds: Annotated[int, SETTABLE, Range(1, MAX_ROUNDS)] = 4
    window: Annotated[int, SETTABLE, Range(1, 50)] = 10
    per_user_day: Annotated[int, COUNT, Range(0)] = 5
    join_hours: Annotated[int, HOURS, Range(0)] = 48
    join_at: Annotated[float, SETTABLE, Range(0.5, 1)] = 0.90
    category: Annotated[str, SETTABLE] = "event"

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
