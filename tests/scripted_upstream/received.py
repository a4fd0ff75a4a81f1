"""A request as it arrived, and a response that notices when its client hangs up."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


@dataclass
class Received:
    """A request: its bytes, and what became of it. Times are seconds of the monotonic clock.

    `headers` have lower-case names in the order of arrival. `chunks` and `sent` count what went out of the body.
    `ended_at` is set when the whole answer is out or was cut by a fault; `closed_at` when the client closed the
    connection before that.
    """

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes
    arrived_at: float = field(default_factory=time.monotonic)
    fault: str = ""
    status: int | None = None
    chunks: int = 0
    sent: int = 0
    ended_at: float | None = None
    closed_at: float | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when one of the two has happened."""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        """Return the first header of this name, or None."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def row(self) -> dict[str, Any]:
        """The request as a line of a log. A body that is not UTF-8 is in base64."""
        try:
            body = {"body": self.body.decode()}
        except UnicodeDecodeError:
            body = {"body_base64": base64.b64encode(self.body).decode()}
        took = {"ended_after_s": self.ended_at, "closed_after_s": self.closed_at}
        return {
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "headers": self.headers,
            **body,
            **{name: getattr(self, name) for name in ("fault", "status", "chunks", "sent")},
            **{name: at and round(at - self.arrived_at, 3) for name, at in took.items()},
        }


class Cut(Exception):
    """Raised by the pieces of a response that stays incomplete: the server then closes the connection."""


class Watched(Response):
    """A response that sends pieces one by one and records in `received` what went out.

    If the client closes the connection, it stops at once. `report` is called at the end.
    """

    def __init__(
        self,
        received: Received,
        pieces: AsyncIterator[bytes],
        headers: dict[str, str],
        report: Callable[[Received], None],
    ) -> None:
        super().__init__(None, 200, headers)
        if "content-length" not in headers:
            del self.headers["content-length"]
        self._received, self._pieces, self._report = received, pieces, report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces while the client listens."""
        sending = asyncio.create_task(self._send_pieces(send))
        listening = asyncio.create_task(_wait_for_end(receive))
        try:
            await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
            if self._received.ended_at is None and not sending.done():
                self._received.closed_at = time.monotonic()
                sending.cancel()
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            with suppress(asyncio.CancelledError, Cut):
                await sending
        finally:
            self._report(self._received)

    async def _send_pieces(self, send: Send) -> None:
        received = self._received
        try:
            async for piece in self._pieces:
                if received.status is None:
                    await self._start(send)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                received.chunks, received.sent = received.chunks + 1, received.sent + len(piece)
                await asyncio.sleep(0)  # so that a closed connection shows
        except Cut:
            received.ended_at = time.monotonic()
            raise
        received.ended_at = time.monotonic()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self, send: Send) -> None:
        self._received.status = self.status_code
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})


async def _wait_for_end(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
