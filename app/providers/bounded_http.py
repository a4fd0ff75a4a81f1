"""An HTTP client that limits the size of a response, so that no endpoint can fill the memory."""

from typing import Any

import httpx2


class AnswerTooLong(Exception):
    """A response that is longer than expected, or compressed, so that its size is unknown before unpacking."""


class BoundedClient(httpx2.AsyncClient):
    """A client that reads at most `most_bytes` of a response and follows no redirects. It raises AnswerTooLong."""

    def __init__(self, most_bytes: int, **options: Any) -> None:
        super().__init__(**options)
        self._most_bytes = most_bytes

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send the request as httpx2 does, and read the body. Refuse a compressed body."""
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
    """Tell whether AnswerTooLong caused the error: API clients wrap the errors of their transport."""
    while error is not None and not isinstance(error, AnswerTooLong):
        error = error.__cause__
    return error is not None
