"""A stretch of conversation as a model is shown it, and when enough was said to be read (SPEC §7)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from app.domain.memory import Memory
from app.domain.multi_fact import own_words
from app.domain.text_rules import cut_at_word, one_line

Kind: TypeAlias = Literal["episode", "summary", "insight"]
"""What is made of it."""
MESSAGE_CHARS: Final = 2000
ROLES: Final = ("user", "assistant")
ANOTHER: Final = "another person"
"""Who is called as one of them."""


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Read again after so many turns of a user's, or so many minutes if there was any."""

    turns: int
    minutes: int

    def __post_init__(self) -> None:
        if min(self.turns, self.minutes) < 1:
            raise ValueError("turns and minutes must be at least 1")

    def over(self, unread: int, since: datetime, now: datetime) -> bool:
        """`unread`: turns of a user's; `since`: when the thread was last read, or first seen."""
        return unread >= self.turns or (unread > 0 and now - since >= timedelta(minutes=self.minutes))


@dataclass(frozen=True, slots=True)
class Mark:
    """How far something was read: `rev` of the thread, and when."""

    rev: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Talk:
    """The last turns of one user in one thread, oldest first, of those that come after `mark`.

    `rev`: of the newest; `unread`: how many of a user's there are behind the mark, shown or not.
    """

    mark: Mark
    rev: int
    unread: int
    turns: tuple[Memory, ...] = ()

    @property
    def last(self) -> Memory:
        """The user's own newest turn, else the newest; there is one."""
        return next((turn for turn in reversed(self.turns) if turn.is_own), self.turns[-1])


def messages(turns: Sequence[Memory], characters: int) -> list[Mapping[str, str]]:
    """Who said what, oldest first, without what Mnema itself put there: the newest up to `characters` in all."""
    told: list[Mapping[str, str]] = []
    for turn in reversed(turns):
        text = one_line(own_words(turn.text))
        if turn.role in ROLES and text and characters > 0:
            text = cut_at_word(text, min(MESSAGE_CHARS, characters))
            characters -= len(text)
            told.append({"who": _who(turn), "text": text})
    return told[::-1]


def spoken(told: Iterable[Mapping[str, str]]) -> str:
    """All of it as one text: what a generated one may take names and numbers from."""
    return "\n".join(f"{one['who']}: {one['text']}" for one in told)


def _who(turn: Memory) -> str:
    if turn.role != "user":
        return "assistant"
    if turn.is_own:
        return "user"
    name = one_line(turn.actor_id or "")
    return ANOTHER if name.casefold() in ("", *ROLES) else name
