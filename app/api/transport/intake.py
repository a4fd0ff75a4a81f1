"""Bodies of requests: received within bounds of size, time and memory."""

import time
from asyncio import timeout
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from app.api.errors import BodyTimeout, TooManyUploads
from app.domain.errors import BodyTooLarge
from app.domain.outages import ServerBusy

UPLOAD_RETRY_S = 5
LINGER_S = 1.0


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """How long a body may take, how much of all bodies may be in memory, and how many uploads may be under way.

    A body has `patience_s` seconds and one more for every `least_rate` bytes that have come. All bodies of requests
    under way take at most `most_bytes` of memory, those of one tenant half of it. One tenant has a
    quarter of `uploads`.
    """

    patience_s: float
    least_rate: int
    most_bytes: int
    uploads: int


class Intake:
    """The bodies of one process. `held` is the number of bytes that they take."""

    def __init__(self, limits: IntakeLimits) -> None:
        self.limits = limits
        self.held = 0
        self._of_tenant: Counter[UUID | None] = Counter()
        self._uploads: Counter[UUID | None] = Counter()

    @contextmanager
    def open_body(self, receive: Receive, limit: int, in_memory: int | None = None) -> Iterator["Body"]:
        """A request's body of at most `limit` bytes; what is beyond `in_memory` bytes of it is kept on disk.

        It counts as held until the request is done.
        """
        body = Body(self, receive, limit, limit if in_memory is None else in_memory)
        try:
            yield body
        finally:
            self._release_body(body)

    def hold_bytes(self, body: "Body", size: int) -> None:
        """Count `size` more bytes as held; raises ServerBusy."""
        most, tenant = self.limits.most_bytes, body.tenant_id
        if self.held + size > most:
            raise ServerBusy(f"the bodies of requests under way hold {self.held} of {most} bytes")
        if self._of_tenant[tenant] + size > most // 2:
            raise ServerBusy(f"this tenant's requests under way hold half of the {most} bytes that all may hold")
        self._of_tenant[tenant] += size
        self.held += size
        body.held += size

    def begin_upload(self, body: "Body") -> None:
        """Count an upload until its request is done; raises TooManyUploads."""
        most, tenant = self.limits.uploads, body.tenant_id
        if self._uploads.total() >= most or self._uploads[tenant] >= max(1, most // 4):
            detail = f"at most {max(1, most // 4)} uploads of a tenant at once, and {most} of all"
            raise TooManyUploads(detail, retry_after=UPLOAD_RETRY_S)
        self._uploads[tenant] += 1
        body.uploads = 1

    def _release_body(self, body: "Body") -> None:
        self.held -= body.held
        for counter, count in ((self._of_tenant, body.held), (self._uploads, body.uploads)):
            counter[body.tenant_id] -= count
            if not counter[body.tenant_id]:
                del counter[body.tenant_id]


class Body:
    """One request's body. Set `tenant_id` before the first byte is read."""

    def __init__(self, intake: Intake, receive: Receive, limit: int, in_memory: int) -> None:
        self.tenant_id: UUID | None = None
        self.held = 0
        self.uploads = 0
        self.started = time.monotonic()
        self._intake = intake
        self._receive = receive
        self._limit = limit
        self._in_memory = in_memory
        self._size = 0
        self.complete = False

    async def receive(self) -> Message:
        """ASGI's receive; raises BodyTooLarge, BodyTimeout, ServerBusy."""
        if self.complete:  # what comes now is the client's leaving
            return await self._receive()
        limits = self._intake.limits
        left = self.started + limits.patience_s + self._size / limits.least_rate - time.monotonic()
        try:
            async with timeout(left):
                message = await self._receive()
        except TimeoutError:
            detail = f"{self._size} bytes came; a body has {limits.patience_s:g} s and then {limits.least_rate} bytes/s"
            raise BodyTimeout(detail) from None
        if message["type"] == "http.request":
            self._count_bytes(len(message.get("body", b"")))
            self.complete = not message.get("more_body", False)
        return message

    async def read_all(self) -> bytes:
        """The whole body; raises what `receive` raises, and ClientDisconnect."""
        parts = []
        while not self.complete:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def discard(self) -> None:
        """Read on for LINGER_S seconds and keep nothing: most clients read no answer before they have sent it all."""
        with suppress(TimeoutError):
            async with timeout(LINGER_S):
                while not self.complete:
                    message = await self._receive()
                    self.complete = not message.get("more_body", False)

    def _count_bytes(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise BodyTooLarge(f"at most {self._limit} bytes")
        if more := min(self._size, self._in_memory) - self.held:
            self._intake.hold_bytes(self, more)


def replay_body(content: bytes, receive: Receive) -> Receive:
    """A receive channel that gives `content` as the whole body and then goes on with `receive`."""
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive_replayed() -> Message:
        return messages.pop() if messages else await receive()

    return receive_replayed
