"""Insights: rare guesses about the reasons behind a user's words and actions, worded as guesses."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from app.domain.memory.memory import Memory
from app.domain.reflection.echoes import EchoMarks
from app.domain.reflection.transcript import ReadPosition, render_messages
from app.domain.settable import HOURS, SETTABLE, Range, RangedPolicy

MAX_INSIGHTS: Final = 3
TALK_TURNS: Final = 12
MAX_EXISTING_INSIGHTS: Final = 20
"""Existing insights that are read, so that none is stored twice."""


@dataclass(frozen=True, slots=True)
class InsightPolicy(RangedPolicy):
    """The settings of insights.

    A new insight is dropped if its cosine to a fact or an existing insight is at least `same_at`.
    """

    hours: Annotated[int, HOURS, Range(24)] = 24
    activity: Annotated[int, SETTABLE, Range(1, 5)] = 5
    facts: Annotated[int, SETTABLE, Range(0, 3)] = 3
    talk_characters: Annotated[int, SETTABLE, Range(0, 1_000)] = 1000
    same_at: Annotated[float, SETTABLE, Range(0.5, 1)] = 0.90
    category: Annotated[str, SETTABLE] = "relationship_dynamic"
    importance: Annotated[int, SETTABLE, Range(1, 5)] = 2

    def due_before(self, now: datetime) -> datetime:
        """Return the cutoff: insights are due for a user whose last ones are older."""
        return now - timedelta(hours=self.hours)


@dataclass(frozen=True, slots=True)
class InsightMaterial:
    """The sources of insights, newest first: episodes since `mark` (`activity`), new facts, and the last turns.

    `known` are the existing insights.
    """

    mark: ReadPosition | None = None
    activity: Sequence[Memory] = ()
    facts: Sequence[Memory] = ()
    turns: Sequence[Memory] = ()
    known: Sequence[Memory] = ()

    def build_question(self, talk_characters: int, marks: EchoMarks) -> dict[str, Any]:
        """Return the question to the model, oldest texts first, with at most `talk_characters` of the turns."""
        messages, _count = render_messages(self.turns if talk_characters else (), talk_characters, marks)
        return {"activity": _memory_texts(self.activity), "facts": _memory_texts(self.facts), "talk": messages[::-1]}


@dataclass(frozen=True, slots=True)
class Insight:
    """An insight from a model. `confidence` is the model's own, 0 to 1."""

    text: str
    tags: tuple[str, ...] = field(default=())
    confidence: float = 0.0


def _memory_texts(memories: Sequence[Memory]) -> list[str]:
    return [memory.text for memory in reversed(memories)]
