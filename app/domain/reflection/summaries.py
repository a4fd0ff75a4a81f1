"""Summaries: one for each user and thread, updated as the conversation continues."""

from dataclasses import dataclass
from typing import Annotated

from app.domain.reflection.transcript import Cooldown, check_rounds
from app.domain.settable import COUNT, MINUTES, SETTABLE


@dataclass(frozen=True, slots=True)
class SummaryPolicy:
    """The settings of summaries.

    A job reads at most `window` turns in each of its `rounds`. `characters` is the limit of the summary. Without
    `enable_summarization` no summary is written, and no chat reads one.
    """

    enable_summarization: Annotated[bool, SETTABLE] = True
    turns: Annotated[int, COUNT] = 6
    minutes: Annotated[int, MINUTES] = 60
    rounds: Annotated[int, SETTABLE] = 4
    window: Annotated[int, SETTABLE] = 40
    characters: Annotated[int, SETTABLE] = 1200
    importance: Annotated[int, SETTABLE] = 2

    def __post_init__(self) -> None:
        check_rounds(self.rounds)
        if not 1 <= self.window <= 100 or not 100 <= self.characters <= 8000 or not 1 <= self.importance <= 5:
            raise ValueError("window must be from 1 to 100, characters from 100 to 8000, importance from 1 to 5")
        _ = self.cooldown

    @property
    def cooldown(self) -> Cooldown:
        """The pause before a thread is read again."""
        return Cooldown(self.turns, self.minutes)
