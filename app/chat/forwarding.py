"""Answers of an upstream on their way to the client: passed on as they come, ended when either side goes away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.errors import IncompleteStream
from app.api.transport.events import EVENTS, run_while_connected
from app.domain.chat.answer import EventStream
from app.domain.chat.dialect import Dialect
from app.domain.errors import MnemaError
from app.domain.outages import UpstreamBroken, UpstreamTimeout, UpstreamUnusable
from app.ports import UpstreamReply
from app.usecases.chat.chat import Chat, ChatWithMemory

END_S = 0.2
"""The seconds that an upstream has to end its answer after the last event."""
PIECE = 8 << 10
"""The most bytes of a stream that are read in one turn of the event loop."""
_BEGINNINGS = (b"data:", b"event:", b"id:", b"retry:", b":")


def is_event_stream(content_type: str, beginning: bytes) -> bool:
    """Return True if an answer is a stream of events, by its Content-Type or else by how it begins."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == EVENTS or (not kind.endswith("json") and beginning.lstrip().startswith(_BEGINNINGS))


class PassedStream(Response):
    """A stream of events that is passed on as it comes. If the client goes away, the call of the upstream ends."""

    def __init__(self, dialect: Dialect, reply: UpstreamReply, chunks: AsyncIterator[bytes], first: bytes) -> None:
        """Take the `first` chunk, which was read already, and the iterator over the others."""
        super().__init__(None, reply.status, dict(reply.headers))
        del self.headers["content-length"]
        self._dialect = dialect
        self._reply = reply
        self._chunks = chunks
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the stream on. Raise ClientDisconnect, or IncompleteStream if the upstream breaks off."""
        try:
            await run_while_connected(receive, self._pass_on(send))
        finally:
            await self._reply.close()

    async def _pass_on(self, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            ending = await self._pass_chunks(send)
            await send({"type": "http.response.body", "body": ending, "more_body": False})
        except UpstreamTimeout as error:
            await self._send_part(send, self._dialect.write_error(error))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (UpstreamBroken, UpstreamUnusable) as error:
            raise IncompleteStream(error.code) from error

    async def _pass_chunks(self, send: Send) -> bytes:
        """Send the chunks; return the end of the stream."""
        await self._send_part(send, self._first)
        async for chunk in self._chunks:
            await self._send_part(send, chunk)
        return b""

    async def _send_part(self, send: Send, part: bytes) -> None:
        if part:
            await send({"type": "http.response.body", "body": part, "more_body": True})


class ForwardedStream(PassedStream):
    """A stream of events that is passed on, with Mnema's members in its last event.

    The assistant's turn is stored before the last event leaves. If the client goes away, the call of the upstream ends,
    and what was said so far is stored as incomplete.
    """

    def __init__(
        self,
        dialect: Dialect,
        use_case: ChatWithMemory,
        chat: Chat,
        reply: UpstreamReply,
        chunks: AsyncIterator[bytes],
        first: bytes,
        most_text: int,
    ) -> None:
        """Take the `first` chunk, which was read already, and the iterator over the others."""
        super().__init__(dialect, reply, chunks, first)
        self._use_case = use_case
        self._chat = chat
        self._stream = EventStream(most_text, dialect.new_reader())
        self._recording: asyncio.Future[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the stream on. Raise ClientDisconnect, or IncompleteStream if the upstream breaks off."""
        try:
            await run_while_connected(receive, self._pass_on(send))
            await self._read_to_end()
        finally:
            await self._reply.close()
            await self._record(incomplete=True)

    async def _pass_chunks(self, send: Send) -> bytes:
        chunk: bytes | None = self._first
        while chunk is not None:
            for at in range(0, len(chunk), PIECE):
                await self._send_part(send, self._stream.feed(chunk[at : at + PIECE]))
                await asyncio.sleep(0)  # short events take long to read: others get a turn
            chunk = None if self._stream.is_done else await anext(self._chunks, None)
        await self._record(incomplete=not self._stream.is_complete)
        return self._stream.finish(self._chat.added_members(), int(self._chat.created_at.timestamp()))

    async def _read_to_end(self) -> None:
        """Read what follows the last event, so that the connection can be used again."""
        with suppress(TimeoutError, MnemaError):
            async with asyncio.timeout(END_S):
                async for _rest in self._chunks:
                    pass

    async def _record(self, *, incomplete: bool) -> None:
        """Store what was said, once. A client that goes away meanwhile does not stop it."""
        if self._recording is None:
            work = self._use_case.record_answer(self._chat, self._stream.text, incomplete=incomplete)
            self._recording = asyncio.ensure_future(work)
        await asyncio.shield(self._recording)
