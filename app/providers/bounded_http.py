"""An HTTP client whose answers have a size: an endpoint that sends without end costs no more memory than that."""

from typing import Any

import httpx2


class AnswerTooLong(Exception):
    """An endpoint answers more than was asked for, or in a form whose size nobody knows before it is unpacked."""


class BoundedClient(httpx2.AsyncClient):
    """Reads at most `most_bytes` of an answer, packed ones not at all; follows no redirects. Raises AnswerTooLong."""

    def __init__(self, most_bytes: int, **options: Any) -> None:
        super().__init__(**options)
        self._most_bytes = most_bytes

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """As httpx2 does, with the body read."""
        request.headers["Accept-Encoding"] = "identity"
        response = await super().send(request, stream=True, **options)
        try:
            body = await self._read_body(response)
        finally:
            await response.aclose()
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            content=body,
            request=request,
            extensions=response.extensions,
        )

    async def _read_body(self, response: httpx2.Response) -> bytes:
        if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise AnswerTooLong
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > self._most_bytes:
                raise AnswerTooLong
        return bytes(body)


def is_too_long(error: BaseException | None) -> bool:
    """Whether AnswerTooLong is behind it: clients of an API wrap what their transport raises."""
    while error is not None and not isinstance(error, AnswerTooLong):
        error = error.__cause__
    return error is not None
