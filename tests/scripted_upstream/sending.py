"""The bytes of an answer, as one fault or another sends them."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from tests.fake_llm.wire import Message
from tests.scripted_upstream.dialects import Event, Wire
from tests.scripted_upstream.faults import Fault
from tests.scripted_upstream.received import Cut

HUGE = 20 << 20
PIECE = 1 << 16
SPLIT_PAUSE_S = 0.002


def dump_compact(value: Any) -> str:
    """Return JSON as OpenAI sends it: without spaces, and with the characters themselves, but for halves of some."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()


def plain_bytes(wire: Wire, body: dict[str, Any], said: Message, number: int, fault: Fault) -> bytes:
    """Return an answer that is not streamed."""
    if fault is Fault.HUGE:
        said = "x" * HUGE
    return dump_compact(wire.whole(body, said, number)).encode()


async def plain_pieces(answer: bytes, fault: Fault, stopping: asyncio.Event, drip_s: float) -> AsyncIterator[bytes]:
    """Yield the answer in pieces. HANG comes before the first, CUT and HANG_LATER after half."""
    if fault is Fault.HANG:
        await _hang(stopping)
    if fault in (Fault.CUT, Fault.HANG_LATER):
        yield answer[: len(answer) // 2]
        if fault is Fault.HANG_LATER:
            await _hang(stopping)
        raise Cut
    if fault is Fault.GZIP:
        answer = gzip.compress(answer, mtime=0)
    step = 1 if fault is Fault.DRIP else PIECE
    for start in range(0, len(answer), step):
        yield answer[start : start + step]
        if fault is Fault.DRIP:
            await asyncio.sleep(drip_s)


def events_of(wire: Wire, body: dict[str, Any], said: Message, number: int, fault: Fault) -> Iterator[bytes]:
    """Yield the events of a stream in the form of this fault."""
    if fault is Fault.HUGE:
        said = " ".join(["x" * (PIECE - 1)] * (HUGE // PIECE))
    for place, event in enumerate(wire.events(body, said, number, fault)):
        yield write_event(event, place, fault)


def write_event(event: Event, place: int = 0, fault: Fault = Fault.NONE) -> bytes:
    """Return an event in the form of this fault."""
    name, data = event
    datum = data if isinstance(data, str) else dump_compact(data)
    lines = [f"data:{datum}" if fault is Fault.NO_SPACE else f"data: {datum}"]
    if fault is Fault.EVENT_LINES:
        lines = [f"event: {name or 'message'}", f"id: {place}", *lines, "retry: 3000"]
    elif name:
        lines = [f"event: {name}", *lines]
    if fault is Fault.COMMENTS:
        lines = [": PROCESSING – bitte warten", "", ":", "", *lines]
    end = "\r\n" if fault is Fault.CRLF else "\n"
    return end.join([*lines, "", ""]).encode()


async def stream_pieces(
    wire: Wire, events: Iterator[bytes], fault: Fault, stopping: asyncio.Event, drip_s: float, pause_s: float
) -> AsyncIterator[bytes]:
    """Yield the events as chunks of the body, with `pause_s` after each.

    ERROR_IN_STREAM, CUT and HANG_LATER come after the second event.
    """
    if fault is Fault.HANG:
        await _hang(stopping)
    if fault is Fault.GZIP:
        yield gzip.compress(b"".join(events), mtime=0)
        return
    for place, event in enumerate(events):
        if place == 1 and fault is Fault.HANG_LATER:
            await _hang(stopping)
        if place == 2 and fault is Fault.ERROR_IN_STREAM:
            yield write_event(wire.error_event(fault))
            return
        if place == 2 and fault is Fault.CUT:
            yield event[: len(event) // 2]
            raise Cut
        async for piece in _pieces_of(event, fault, drip_s):
            yield piece
        if pause_s:
            await asyncio.sleep(pause_s)


async def _pieces_of(event: bytes, fault: Fault, drip_s: float) -> AsyncIterator[bytes]:
    if fault not in (Fault.BYTES, Fault.DRIP):
        yield event
        return
    for byte, after in zip(event, [*event[1:], 0], strict=True):
        yield bytes([byte])
        within = after & 0xC0 == 0x80
        if fault is Fault.DRIP or within:
            await asyncio.sleep(drip_s if fault is Fault.DRIP else SPLIT_PAUSE_S)


async def _hang(stopping: asyncio.Event) -> None:
    await stopping.wait()
    raise Cut
