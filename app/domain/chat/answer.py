"""Answers of a chat endpoint: read while they pass, with Mnema's members added to the last part.

All other bytes stay as they came.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.domain.chat.thoughts import shorten_thoughts
from app.domain.outages import UpstreamUnusable

MAX_HELD: Final = 1 << 20
"""The largest event in bytes that is read; a larger one passes unread."""
MAX_LINES: Final = 1 << 20
"""The most lines of a stream. Each costs some microseconds, however short it is; an answer has three for each token."""
DONE: Final = b"[DONE]"


def added_members(hits: Sequence[Mapping[str, Any]], label: str, meta: Mapping[str, Any]) -> bytes:
    """Return Mnema's members of an answer as JSON, without braces."""
    members = {"memory_hits": list(hits), "model_label": label, "meta": dict(meta)}
    return _dump(members)[1:-1]


def add_members(answer: bytes, added: bytes) -> bytes:
    """Return the JSON object `answer` with the members `added` before its last brace."""
    at = answer.rindex(b"}")
    is_empty = answer[:at].rstrip().endswith(b"{")
    return answer[:at] + (b"" if is_empty else b",") + added + answer[at:]


def read_plain_answer(body: bytes) -> str | None:
    """Return the text of the first choice of a whole answer; None if it is no answer, so that nothing is added."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    choice = _first_choice(answer) if isinstance(answer, dict) else None
    if choice is None:
        return None
    message = choice.get("message")
    return _text_of(message.get("content")) if isinstance(message, dict) else ""


@dataclass(slots=True)
class EventStream:
    """A reader of a stream of server-sent events, fed chunk by chunk.

    The last event with a part of the answer is held back until the next one or the end, because Mnema's members belong
    into it. `text` is the first choice's text so far, at most `most_text` characters without finished thoughts.
    `is_complete`: the answer has ended as it should. `has_failed`: the endpoint told of an error.
    """

    most_text: int
    is_complete: bool = False
    has_failed: bool = False
    _said: list[str] = field(default_factory=list)
    _said_chars: int = 0
    _event: bytearray = field(default_factory=bytearray)
    _line_start: int = 0
    _held: bytes = b""
    _after_held: bytearray = field(default_factory=bytearray)
    _lines: int = 0
    _part: dict[str, Any] = field(default_factory=dict)
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
        last = add_members(self._held, added) + self._after_held if self._held else b""
        if self._ending is None:
            return last + self._event
        return (last or self._own_event(added, created)) + self._ending

    def _end_event(self) -> bytes:
        """Read the event that has just ended; return the bytes that can be sent on."""
        event = bytes(self._event)
        self._reset_event()
        data = _event_data(event)
        if data is None:  # a comment: it stays behind the event that is held
            if not self._held:
                return event
            self._after_held += event
            return self._release() if len(self._after_held) > MAX_HELD else b""
        if data.strip() == DONE:
            self.is_complete = not self.has_failed
            self._ending = event
            return b""
        ready = self._release()
        if self._read_part(data):
            self._held = event
            return ready
        return ready + event

    def _read_part(self, data: bytes) -> bool:
        """Read a part of the answer. Return True if it may be the last one."""
        try:
            part = json.loads(data)
        except (ValueError, RecursionError):
            return False
        if not isinstance(part, dict):
            return False
        if "error" in part:
            self.has_failed = True
            return False
        self._part = part
        choice = _first_choice(part)
        delta = choice.get("delta") if choice else None
        self._add_text(_text_of(delta.get("content")) if isinstance(delta, dict) else "")
        is_last = any(isinstance(c, dict) and c.get("finish_reason") for c in _choices(part))
        self.is_complete = self.is_complete or is_last
        return is_last or (not _choices(part) and bool(part.get("usage")))

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

    def _own_event(self, added: bytes, created: int) -> bytes:
        """Return an event of Mnema's own, for a stream without a last part to add to."""
        part = {"id": "", "object": "chat.completion.chunk", "created": created, "model": ""} | self._part
        part["choices"] = [{"index": 0, "delta": {}, "finish_reason": None}]
        part.pop("usage", None)
        return b"data: " + add_members(_dump(part), added) + b"\n\n"


def _event_data(event: bytes) -> bytes | None:
    """Return the data of an event; None if it has none."""
    lines = [line.rstrip(b"\r") for line in event.split(b"\n")]
    data = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    return b"\n".join(data) if data else None


def _choices(answer: Mapping[str, Any]) -> Sequence[Any]:
    choices = answer.get("choices")
    return choices if isinstance(choices, list) else ()


def _first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the choice with index 0."""
    return next((c for c in _choices(answer) if isinstance(c, dict) and c.get("index", 0) == 0), None)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))


@dataclass(frozen=True, slots=True)
class OwnAnswer:
    """An answer that Mnema gives without calling an endpoint, in the shape of OpenAI's API. It cost no tokens."""

    id: str
    created: int
    model: str
    text: str
    choices: int = 1

    def as_completion(self, added: bytes) -> bytes:
        """Return the answer as one JSON object."""
        message = {"role": "assistant", "content": self.text, "refusal": None}
        choices = [
            {"index": n, "message": message, "logprobs": None, "finish_reason": "stop"} for n in range(self.choices)
        ]
        return add_members(_dump(self._part("chat.completion", choices) | {"usage": _NO_USAGE}), added)

    def as_events(self, added: bytes, *, include_usage: bool) -> bytes:
        """Return the answer as a stream of events."""
        deltas: list[tuple[dict[str, Any], str | None]] = [
            ({"role": "assistant", "content": ""}, None),
            ({"content": self.text}, None),
            ({}, "stop"),
        ]
        parts = [
            self._part(
                "chat.completion.chunk",
                [{"index": n, "delta": delta, "logprobs": None, "finish_reason": reason} for n in range(self.choices)],
            )
            for delta, reason in deltas
        ]
        if include_usage:
            parts = [part | {"usage": None} for part in parts]
            parts.append(self._part("chat.completion.chunk", []) | {"usage": _NO_USAGE})
        *first, last = map(_dump, parts)
        return b"".join(b"data: " + part + b"\n\n" for part in (*first, add_members(last, added), DONE))

    def _part(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}


_NO_USAGE: Final = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
