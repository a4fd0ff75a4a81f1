"""Summaries: one for each user and thread, updated as the conversation continues."""

from dataclasses import dataclass
from typing import Annotated

from app.domain.reflection.transcript import MAX_ROUNDS, Cooldown
from app.domain.settable import COUNT, MINUTES, SETTABLE, Range, RangedPolicy


@dataclass(frozen=True, slots=True)
class SummaryPolicy(RangedPolicy):
    """The settings of summaries.

    A job reads at most `window` turns in each of its `rounds`. `characters` is the limit of the summary. Without
    `enable_summarization` no summary is written, and no chat reads one.
    """

    enable_summarization: Annotated[bool, SETTABLE] = True
    turns: Annotated[int, COUNT, Range(1)] = 6
    minutes: Annotated[int, MINUTES, Range(1)] = 60
    rounds: Annotated[int, SETTABLE, Range(1, MAX_ROUNDS)] = 4
    window: Annotated[int, SETTABLE, Range(1, 100)] = 40
    characters: Annotated[int, SETTABLE, Range(100, 8_000)] = 1200
    importance: Annotated[int, SETTABLE, Range(1, 5)] = 2

    @property
    def cooldown(self) -> Cooldown:
        """The pause before a thread is read again."""
        return Cooldown(self.turns, self.minutes)
