"""The answer of a chat endpoint: its head checked, its body passed on chunk by chunk."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

import httpx2

from app.domain.outages import UpstreamBroken, UpstreamTimeout, UpstreamUnusable
from app.providers.outside_stream import OutsideStream

PASSED_ON = frozenset({"content-type", "request-id", "retry-after", "retry-after-ms", "x-should-retry"})
PASSED_PREFIXES = ("x-ratelimit-", "openai-", "anthropic-")


class HttpUpstreamReply:
    """An UpstreamReply over HTTP. It reads little ahead: the endpoint waits until somebody asks for the rest."""

    def __init__(self, response: httpx2.Response, idle_timeout_s: float, most_bytes: int) -> None:
        self._response = response
        self._idle_timeout_s = idle_timeout_s
        self._most_bytes = most_bytes
        self._body: OutsideStream | None = None
        self._leave: Callable[[], Awaitable[None]] | None = None

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status_code

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The headers that may be passed on, with names in lower case."""
        every = ((name.lower(), value) for name, value in self._response.headers.multi_items())
        return [(name, value) for name, value in every if name in PASSED_ON or name.startswith(PASSED_PREFIXES)]

    async def check_head(self) -> None:
        """Raise UpstreamUnusable, and end the call, if the head announces an answer that cannot be passed on."""
        if (problem := self._find_problem()) is not None:
            await self._response.aclose()
            raise UpstreamUnusable(problem)

    def on_close(self, leave: Callable[[], Awaitable[None]]) -> None:
        """Set what `close` calls once, at the end."""
        self._leave = leave

    def stream_body(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, with the errors that the port describes. Call it once."""
        self._body = OutsideStream(
            self._read_chunks(), self._most_bytes, too_long=UpstreamUnusable(self._too_long), closed=UpstreamBroken()
        )
        return self._body

    async def close(self) -> None:
        """End the call. Unless the body was read to its end, the connection is closed."""
        leave, self._leave = self._leave, None
        try:
            await self._response.aclose()
            if self._body is not None:
                await self._body.aclose()
        finally:
            if leave is not None:
                await leave()

    def _find_problem(self) -> str | None:
        headers = self._response.headers
        if not 200 <= self.status < 300 and not 400 <= self.status < 600:
            return f"The chat endpoint answered {self.status}; redirects are not followed."
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            return "The chat endpoint compressed its answer although it was asked not to."
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._most_bytes:
            return self._too_long
        return None

    @property
    def _too_long(self) -> str:
        return f"The answer of the chat endpoint is longer than {self._most_bytes} bytes."

    async def _read_chunks(self) -> AsyncGenerator[bytes]:
        chunks = self._response.aiter_raw()
        try:
            while (chunk := await self._read_chunk(chunks)) is not None:
                yield chunk
        finally:
            await chunks.aclose()

    async def _read_chunk(self, chunks: AsyncGenerator[bytes]) -> bytes | None:
        try:
            async with asyncio.timeout(self._idle_timeout_s):
                return await anext(chunks, None)
        except TimeoutError:
            raise UpstreamTimeout(
                f"The chat endpoint sent nothing for {self._idle_timeout_s:g} s.", phase="idle"
            ) from None
        except httpx2.TransportError:
            raise UpstreamBroken from None
