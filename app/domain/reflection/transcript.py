"""A stretch of conversation as a model is shown it, and when enough was said to be read (SPEC §7)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from app.domain.memory.memory import Memory
from app.domain.reflection.echoes import EchoMarks, strip_echoes
from app.domain.text_rules import one_line, trim_text

ReflectionKind: TypeAlias = Literal["episode", "summary", "insight"]
"""What is made of it."""
Message: TypeAlias = Mapping[str, str]
ROLES: Final = ("user", "assistant")
MAX_ROUNDS: Final = 20
OTHER_SPEAKER: Final = "another person"
"""Who is called as one of them."""


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Read again after so many turns of a user's, or so many minutes if there was any."""

    turns: int
    minutes: int

    def __post_init__(self) -> None:
        if min(self.turns, self.minutes) < 1:
            raise ValueError("turns and minutes must be at least 1")

    def is_over(self, unread: int, since: datetime, now: datetime) -> bool:
        """`unread`: turns of a user's; `since`: when the thread was last read, or first seen."""
        return unread >= self.turns or (unread > 0 and now - since >= timedelta(minutes=self.minutes))


def check_rounds(rounds: int) -> None:
    """How often a job may read on in one thread; raises ValueError."""
    if not 1 <= rounds <= MAX_ROUNDS:
        raise ValueError(f"rounds must be from 1 to {MAX_ROUNDS}")


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """How far something was read: `rev` of the thread, and when."""

    rev: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Transcript:
    """Turns of one user in one thread that come after `mark`, oldest first, and the thread's revision of each.

    `unread`: how many of a user's come after it, these or later ones.
    """

    mark: ReadPosition
    unread: int
    turns: tuple[Memory, ...] = ()
    revs: tuple[int, ...] = ()

    @property
    def newest_turn(self) -> Memory:
        """The user's own newest turn, else the newest; there is one."""
        return next((turn for turn in reversed(self.turns) if turn.is_own_turn), self.turns[-1])

    @property
    def count_remaining(self) -> int:
        """How many of a user's come after these."""
        return self.unread - sum(turn.role == "user" for turn in self.turns)

    def trim_to_fit(self, characters: int, marks: EchoMarks) -> tuple["Transcript", list[Message]]:
        """The first of it, as much as `characters` in all can hold, and its messages; there is at least a turn."""
        told, count = render_messages(self.turns, characters, marks)
        return replace(self, turns=self.turns[:count], revs=self.revs[:count]), told


def render_messages(turns: Iterable[Memory], characters: int, marks: EchoMarks) -> tuple[list[Message], int]:
    """Who said what, without what Mnema itself put there, up to `characters` in all; and of how many turns that is.

    A turn is told whole, or it is left with all after it. Only what would fit nowhere is cut, at a sentence or a word.
    """
    told: list[Message] = []
    left, count = characters, 0
    for count, turn in enumerate(turns, 1):
        text = one_line(strip_echoes(turn.text, marks)) if turn.role in ROLES else ""
        text = trim_text(text, characters)
        if len(text) > left:
            return told, count - 1
        if text:
            left -= len(text)
            told.append({"who": _speaker_name(turn), "text": text})
    return told, count


def joined_messages(told: Iterable[Message]) -> str:
    """All of it as one text: what a generated one may take names and numbers from."""
    return "\n".join(f"{one['who']}: {one['text']}" for one in told)


def _speaker_name(turn: Memory) -> str:
    if turn.role != "user":
        return "assistant"
    if turn.is_own_turn:
        return "user"
    name = one_line(turn.actor_id or "")
    return OTHER_SPEAKER if name.casefold() in ("", *ROLES) else name
