"""Streamed responses: parsers of JSON documents, one a line, and of server-sent events."""

import json
from typing import Any, NamedTuple, Protocol

import httpx

from mnema_client.errors import BrokenOff, UnexpectedAnswer

EVENTS = "text/event-stream"


class Event(NamedTuple):
    """A server-sent event: its name and its JSON."""

    name: str
    data: Any


class Documents(Protocol):
    """A parser of a streamed response."""

    def feed_chunk(self, chunk: bytes) -> list[Any]:
        """Add bytes; return the documents that are complete now."""

    def check_end(self) -> None:
        """Raise BrokenOff if the last document is incomplete."""


def open_stream(response: httpx.Response) -> Documents:
    """Return the parser for a response: of `Event`s, or of JSON lines."""
    return ServerEvents() if response.headers.get("Content-Type", "").startswith(EVENTS) else JsonLines()


class JsonLines:
    """A parser of JSON documents, one a line. Only a line feed ends a line: texts may hold other separators."""

    def __init__(self) -> None:
        self._rest = b""

    def feed_chunk(self, chunk: bytes) -> list[Any]:
        """Add bytes; return the documents that are complete now."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [_parse_json(line) for line in lines if line.strip()]

    def check_end(self) -> None:
        """Raise BrokenOff if the last line is incomplete."""
        if self._rest.strip():
            raise BrokenOff("the last line is incomplete", code="broken_off")


class ServerEvents:
    """A parser of server-sent events with JSON as data. Comments and events without data are left out."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []

    def feed_chunk(self, chunk: bytes) -> list[Event]:
        """Add bytes; return the events that are complete now."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [event for line in lines if (event := self._read_line(line.removesuffix(b"\r"))) is not None]

    def check_end(self) -> None:
        """Raise BrokenOff if the last event is incomplete."""
        if self._rest.strip() or self._data:
            raise BrokenOff("the last event is incomplete", code="broken_off")

    def _read_line(self, line: bytes) -> Event | None:
        """Take a line; return the event that it ends, if it ends one."""
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"data":
            self._data.append(value)
        elif not line:
            name, data, self._name, self._data = self._name, self._data, "", []
            return Event(name, _parse_json(b"\n".join(data))) if data else None
        return None


def _parse_json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UnexpectedAnswer("a part of the answer is not JSON", code="unexpected_answer") from error
