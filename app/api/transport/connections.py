"""uvicorn's HTTP/1.1 with bounds for what comes before any application is asked.

    uvicorn --http app.api.transport.connections:BoundedHttp --factory app.api.main:create_app

uvicorn itself keeps a header however long it becomes, and waits for its end for ever.
"""

import asyncio
import json
import uuid
from typing import Any

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from app.api.errors import MEDIA_TYPE, problem_document

log = structlog.get_logger(__name__)
STATUS, CODE = 431, "headers_too_large"


class BoundedHttp(HttpToolsProtocol):
    """One connection. Counted is what is neither body nor a whole head of a request: its line, headers, trailers."""

    limit = 64 << 10
    """Bytes of it at most; some more when it arrives together with what came before."""
    patience_s = 30.0
    """Seconds in which the head of a request must be there."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._counted = 0
        self._in_head = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Somebody has connected."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """They have gone."""
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser no more than may still be counted, piece by piece."""
        rest = data
        while rest and not self.transport.is_closing():
            room = self.limit - self._counted
            piece, rest = rest[:room], rest[room:]
            self._counted += len(piece)
            super().data_received(piece)
            if self._counted >= self.limit:
                self._refuse()
        if self._in_head and self._deadline is None:
            self._wait_for_head()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._counted, self._in_head = 0, False
        self._head_is_there()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Part of its body: bounded by the application."""
        self._counted = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._counted = 0
        super().on_message_complete()

    def _wait_for_head(self) -> None:
        self._deadline = self.loop.call_later(self.patience_s, self._give_up)

    def _head_is_there(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if self._answering():  # the request before this one
            self._wait_for_head()
        else:
            self.transport.close()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self) -> None:
        """Say why, unless an answer is under way, and hang up."""
        request_id = uuid.uuid4().hex
        log.warning("request_refused", code=CODE, status=STATUS, request_id=request_id)
        if not self._answering():
            detail = f"at most {self.limit} bytes of request line and headers"
            content = json.dumps(problem_document(request_id, STATUS, CODE, detail)).encode()
            head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(content)}\r\nx-request-id: {request_id}\r\n"
            closing = b"cache-control: no-store\r\nconnection: close\r\n\r\n"
            self.transport.write(b"".join((STATUS_LINE[STATUS], head.encode(), closing, content)))
        self.transport.close()
