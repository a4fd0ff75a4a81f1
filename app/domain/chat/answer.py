"""Answers of a chat endpoint: read while they pass, with Mnema's members added to the last part.

All other bytes stay as they came.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.chat.dialect import Dialect, PartReader, WholeAnswer
from app.domain.chat.event_text import event_data
from app.domain.chat.thoughts import shorten_thoughts
from app.domain.outages import UpstreamUnusable

MAX_HELD: Final = 1 << 20
"""The largest event in bytes that is read; a larger one passes unread."""
MAX_LINES: Final = 1 << 20
"""The most lines of a stream. Each costs some microseconds, however short it is; an answer has three for each token."""


def read_plain_answer(body: bytes, dialect: Dialect) -> WholeAnswer | None:
    """Return what a whole answer says; None if it is no answer, so that nothing is added."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return dialect.read_answer(answer) if isinstance(answer, dict) else None


@dataclass(slots=True)
class EventStream:
    """A reader of a stream of server-sent events, fed chunk by chunk.

    The last event with a part of the answer is held back until the next one or the end, because Mnema's members belong
    into it. `text` is the first choice's text so far, at most `most_text` characters without finished thoughts.
    `is_complete`: the answer has ended as it should. `has_failed`: the endpoint told of an error.
    """

    most_text: int
    reader: PartReader
    is_complete: bool = False
    has_failed: bool = False
    _said: list[str] = field(default_factory=list)
    _said_chars: int = 0
    _event: bytearray = field(default_factory=bytearray)
    _line_start: int = 0
    _held: bytes = b""
    _after_held: bytearray = field(default_factory=bytearray)
    _lines: int = 0
    _part: Mapping[str, Any] = field(default_factory=dict)
    _ending: bytes | None = None

    @property
    def text(self) -> str:
        """The text of the first choice so far."""
        return "".join(self._said)

    @property
    def is_done(self) -> bool:
        """True once the end of the stream has been read. `finish` returns what is still to be sent."""
        return self._ending is not None

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that can be sent on now. Raise UpstreamUnusable beyond MAX_LINES."""
        out = bytearray()
        at = 0
        self._lines += chunk.count(b"\n")
        if self._lines > MAX_LINES:
            raise UpstreamUnusable(f"The answer of the chat endpoint has more than {MAX_LINES} lines.")
        while self._ending is None and (end := chunk.find(b"\n", at)) >= 0:
            self._event += chunk[at : end + 1]
            at = end + 1
            if self._event[self._line_start :].strip(b"\r\n"):
                self._line_start = len(self._event)
            elif self._line_start:  # an empty line ends the event
                out += self._end_event()
            else:
                out += self._event
                self._reset_event()
        if self._ending is not None:
            self._ending += chunk[at:]
            return bytes(out)
        self._event += chunk[at:]
        if len(self._event) > MAX_HELD:
            out += self._release() + self._event
            self._reset_event()
        return bytes(out)

    def finish(self, added: bytes, created: int) -> bytes:
        """Return the rest of the stream, with the members `added` in the last event of the answer.

        `created` (Unix seconds) is used if the stream has no event that could hold them.
        """
        last = self.reader.add_to_event(self._held, added) + self._after_held if self._held else b""
        if self._ending is None:
            return last + self._event
        return (last or self.reader.own_event(self._part, added, created)) + self._ending

    def _end_event(self) -> bytes:
        """Read the event that has just ended; return the bytes that can be sent on."""
        event = bytes(self._event)
        self._reset_event()
        data = event_data(event)
        if data is None:  # a comment: it stays behind the event that is held
            if not self._held:
                return event
            self._after_held += event
            return self._release() if len(self._after_held) > MAX_HELD else b""
        part = self.reader.read_part(data)
        self.has_failed = self.has_failed or part.fails
        self.is_complete = (self.is_complete or part.completes) and not (part.ends and self.has_failed)
        self._part = part.value or self._part
        self._add_text(part.text)
        if part.ends:
            self._ending = b""
        if part.ends and not part.takes_members:
            self._ending = event
            return b""
        ready = self._release()
        if part.takes_members:
            self._held = event
            return ready
        return ready + event

    def _add_text(self, text: str) -> None:
        room = self.most_text - self._said_chars
        if not text or room <= 0:
            return
        self._said.append(text)
        self._said_chars += len(text)
        if self._said_chars >= self.most_text:  # a long thought must not crowd out what is said after it
            said = shorten_thoughts(self.text)[: self.most_text]
            self._said, self._said_chars = [said], len(said)

    def _release(self) -> bytes:
        held = self._held + self._after_held
        self._held = b""
        self._after_held = bytearray()
        return held

    def _reset_event(self) -> None:
        self._event.clear()
        self._line_start = 0
