"""Transcripts: parts of a conversation in the form that a model reads, and the pause between two readings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from app.domain.memory.memory import Memory
from app.domain.reflection.echoes import EchoMarks, strip_echoes
from app.domain.text_rules import one_line, trim_text

ReflectionKind: TypeAlias = Literal["episode", "summary", "insight"]
"""The kinds of memories that are generated from a transcript."""
Message: TypeAlias = Mapping[str, str]
ROLES: Final = ("user", "assistant")
MAX_ROUNDS: Final = 20
"""The most readings of one thread in a job."""
OTHER_SPEAKER: Final = "another person"
"""The name for a speaker without a name, or with a name that is a role."""


@dataclass(frozen=True, slots=True)
class Cooldown:
    """The pause before a thread is read again: a number of the user's turns, or of minutes with at least one turn."""

    turns: int
    minutes: int

    def is_over(self, unread: int, since: datetime, now: datetime) -> bool:
        """Tell whether the pause is over at `now`.

        `unread` is the number of unread user turns. `since` is the time of the last reading, or of the first turn.
        """
        return unread >= self.turns or (unread > 0 and now - since >= timedelta(minutes=self.minutes))


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """The end of the last reading: the thread's revision and the time."""

    rev: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Transcript:
    """The turns of one user in one thread after `mark`, oldest first, with the thread's revision of each.

    `unread` is the number of all user turns after `mark`, these and later ones.
    """

    mark: ReadPosition
    unread: int
    turns: tuple[Memory, ...] = ()
    revs: tuple[int, ...] = ()

    @property
    def newest_turn(self) -> Memory:
        """The user's own newest turn, else the newest turn. The transcript must have a turn."""
        return next((turn for turn in reversed(self.turns) if turn.is_own_turn), self.turns[-1])

    @property
    def count_remaining(self) -> int:
        """The number of user turns after these."""
        return self.unread - sum(turn.role == "user" for turn in self.turns)

    def trim_to_fit(self, characters: int, marks: EchoMarks) -> tuple["Transcript", list[Message]]:
        """Return the first turns that fit into `characters`, and their messages. At least one turn fits."""
        messages, count = render_messages(self.turns, characters, marks)
        return replace(self, turns=self.turns[:count], revs=self.revs[:count]), messages


def render_messages(turns: Iterable[Memory], characters: int, marks: EchoMarks) -> tuple[list[Message], int]:
    """Return the messages of the first turns, at most `characters` in all, and the number of these turns.

    Mnema's own text is removed. A turn is included whole; otherwise it and all later turns are left out. Only a turn
    longer than `characters` is cut, at a sentence or a word.
    """
    messages: list[Message] = []
    left = characters
    count = 0
    for count, turn in enumerate(turns, 1):
        text = one_line(strip_echoes(turn.text, marks)) if turn.role in ROLES else ""
        text = trim_text(text, characters)
        if len(text) > left:
            return messages, count - 1
        if text:
            left -= len(text)
            messages.append({"who": _speaker_name(turn), "text": text})
    return messages, count


def joined_messages(messages: Iterable[Message]) -> str:
    """Return all messages as one text, the source of the names and numbers that a generated text may have."""
    return "\n".join(f"{message['who']}: {message['text']}" for message in messages)


def _speaker_name(turn: Memory) -> str:
    if turn.role != "user":
        return "assistant"
    if turn.is_own_turn:
        return "user"
    name = one_line(turn.actor_id or "")
    return OTHER_SPEAKER if name.casefold() in ("", *ROLES) else name
