"""An HTTP client that limits the size of a response, so that no endpoint can fill the memory."""

from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from app.providers.outside_stream import OutsideStream

REFUSED = (400, 413, 422)
"""Statuses that the request may cause; all others are the endpoint's fault."""


class AnswerTooLong(Exception):
    """A response that is longer than expected, or compressed, so that its size is unknown before unpacking."""


class BoundedClient(httpx2.AsyncClient):
    """A client that reads at most `most_bytes` of a response and follows no redirects. It raises AnswerTooLong."""

    def __init__(self, most_bytes: int, **options: Any) -> None:
        super().__init__(**options)
        self._most_bytes = most_bytes

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send the request as httpx2 does, and read the body unless `stream` is set. Refuse a compressed body."""
        request.headers["Accept-Encoding"] = "identity"
        response = await super().send(request, stream=True, **options)
        head: dict[str, Any] = {"headers": response.headers, "request": request, "extensions": response.extensions}
        body = _BoundedBody(response, self._most_bytes)
        if stream:
            return httpx2.Response(response.status_code, stream=body, **head)
        try:
            content = b"".join([piece async for piece in body])
        finally:
            await body.aclose()
        return httpx2.Response(response.status_code, content=content, **head)


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of a response as it arrives. It raises AnswerTooLong."""

    def __init__(self, response: httpx2.Response, most_bytes: int) -> None:
        self._response = response
        self._chunks = OutsideStream(
            response.aiter_raw(), most_bytes, too_long=AnswerTooLong(), closed=httpx2.StreamClosed()
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise AnswerTooLong
        async for piece in self._chunks:
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()
        await self._chunks.aclose()


def is_too_long(error: BaseException | None) -> bool:
    """Tell whether AnswerTooLong caused the error: API clients wrap the errors of their transport."""
    while error is not None and not isinstance(error, AnswerTooLong):
        error = error.__cause__
    return error is not None


def asked_wait_s(answer: httpx2.Response) -> float | None:
    """Return the seconds that the endpoint asks to wait, None if it asks for none."""
    headers = answer.headers
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wait_s = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= wait_s < float("inf"):
            return wait_s
    try:  # a date; the difference of two of the endpoint's own times needs no clock here
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        wait_s = (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
    except (ValueError, TypeError):
        return None
    return max(0.0, wait_s)
