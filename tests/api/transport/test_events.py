"""Events of a model's answer: their form, the pieces that wait for a slow client, and work that fails."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel

from app.api.transport.events import MAX_WAITING, StreamedResult, WaitingEvents
from app.domain.principal import Principal
from app.ports import AnswerListener

READER = Principal(uuid4(), scopes=frozenset({"query", "write"}))


class Done(BaseModel):
    """A result."""

    text: str


class Wire:
    """The two ends of an ASGI exchange. `gone` is set when the client leaves."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        """Wait until the client leaves."""
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Keep the message."""
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        """The body so far."""
        return b"".join(message.get("body", b"") for message in self.sent)


def parse(body: bytes) -> list[tuple[str, Any]]:
    """Return the events of a body."""
    events = [dict(line.split(": ", 1) for line in part.split("\n")) for part in body.decode().split("\n\n") if part]
    return [(event["event"], json.loads(event["data"])) for event in events]


def test_pieces_that_wait_together_are_one_event() -> None:
    events = WaitingEvents()
    for piece in ("one ", "line\nand ", "“more”"):
        events.add_text(piece)
    events.begin_again("malformed")
    events.add_text("again")
    assert parse(events.take_events()) == [
        ("delta", {"text": "one line\nand “more”"}),
        ("restart", {"reason": "malformed"}),
        ("delta", {"text": "again"}),
    ]
    assert events.take_events() == b""


def test_a_client_that_does_not_read_holds_a_bounded_text() -> None:
    events = WaitingEvents()
    for _piece in range(100):
        events.add_text("x" * (MAX_WAITING // 10))
    [(_name, data)] = parse(events.take_events())
    assert len(data["text"]) == MAX_WAITING
    events.add_text("more")
    assert parse(events.take_events()) == [("delta", {"text": "more"})]


async def answer(work: Any) -> Wire:
    """Answer a request with the work; return the exchange."""
    wire = Wire()
    await StreamedResult(work, READER)({"type": "http", "path": "/", "state": {}}, wire.receive, wire.send)
    return wire


async def test_a_result_is_the_last_event() -> None:
    async def work(listener: AnswerListener | None) -> Done:
        assert listener is not None
        listener.add_text("a")
        await asyncio.sleep(0.01)
        listener.add_text("b")
        return Done(text="ab")

    wire = await answer(work)
    assert parse(wire.body) == [("delta", {"text": "a"}), ("delta", {"text": "b"}), ("result", {"text": "ab"})]
    assert [message.get("more_body") for message in wire.sent[1:]][-1] is False


async def test_a_defect_is_no_event() -> None:
    async def work(listener: AnswerListener | None) -> Done:
        raise ZeroDivisionError

    async def late(listener: AnswerListener | None) -> Done:
        assert listener is not None
        listener.add_text("a")
        await asyncio.sleep(0.01)
        raise ZeroDivisionError

    for defect in (work, late):
        with pytest.raises(ZeroDivisionError):
            await answer(defect)
