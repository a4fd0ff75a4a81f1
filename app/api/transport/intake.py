"""Reception of request bodies within limits of size, time and memory."""

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
    """Limits of time, memory and uploads for request bodies.

    A body may take `patience_s` seconds, and one second more for every `least_rate` bytes that have arrived. All bodies
    together take at most `most_bytes` of memory, those of one tenant at most half of that. At most `uploads` streamed
    bodies run at the same time, at most a quarter of them for one tenant.
    """

    patience_s: float
    least_rate: int
    most_bytes: int
    uploads: int


class Intake:
    """All request bodies of one process. `held` is the number of bytes that they take."""

    def __init__(self, limits: IntakeLimits) -> None:
        self.limits = limits
        self.held = 0
        self._of_tenant: Counter[UUID | None] = Counter()
        self._uploads: Counter[UUID | None] = Counter()

    @contextmanager
    def open_body(self, receive: Receive, limit: int, in_memory: int | None = None) -> Iterator["Body"]:
        """Open a request's body of at most `limit` bytes. Its memory counts until the block ends.

        `in_memory` is the most that counts as memory, for a route that writes the rest to disk; None means `limit`.
        """
        body = Body(self, receive, limit, limit if in_memory is None else in_memory)
        try:
            yield body
        finally:
            self._release_body(body)

    def hold_bytes(self, body: "Body", size: int) -> None:
        """Count `size` more bytes of memory for `body`. Raise ServerBusy if a limit is reached."""
        most = self.limits.most_bytes
        tenant = body.tenant_id
        if self.held + size > most:
            raise ServerBusy(f"the bodies of requests under way hold {self.held} of {most} bytes")
        if self._of_tenant[tenant] + size > most // 2:
            raise ServerBusy(f"the bodies of this tenant's requests under way would hold more than {most // 2} bytes")
        self._of_tenant[tenant] += size
        self.held += size
        body.held += size

    def begin_upload(self, body: "Body") -> None:
        """Count an upload until its request ends. Raise TooManyUploads."""
        most = self.limits.uploads
        tenant = body.tenant_id
        if self._uploads.total() >= most or self._uploads[tenant] >= max(1, most // 4):
            detail = f"at most {max(1, most // 4)} uploads of one tenant at once, and {most} of all tenants"
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
    """The body of one request. Set `tenant_id` before reading the first byte."""

    def __init__(self, intake: Intake, receive: Receive, limit: int, in_memory: int) -> None:
        self.tenant_id: UUID | None = None
        self.held = 0
        self.uploads = 0
        self.started = time.monotonic()
        self._intake = intake
        self._receive = receive
        self.limit = limit
        self._in_memory = in_memory
        self._size = 0
        self.complete = False

    async def receive(self) -> Message:
        """Return the next ASGI message. Raise BodyTooLarge, BodyTimeout or ServerBusy."""
        if self.complete:  # the only message left is the disconnect
            return await self._receive()
        limits = self._intake.limits
        left = self.started + limits.patience_s + self._size / limits.least_rate - time.monotonic()
        try:
            async with timeout(left):
                message = await self._receive()
        except TimeoutError:
            rule = f"a body may take {limits.patience_s:g} s, and 1 s more for each {limits.least_rate} bytes"
            raise BodyTimeout(f"{self._size} bytes arrived in time; {rule}") from None
        if message["type"] == "http.request":
            self._count_bytes(len(message.get("body", b"")))
            self.complete = not message.get("more_body", False)
        return message

    async def read_all(self) -> bytes:
        """Return the whole body. Raise ClientDisconnect and the errors of `receive`."""
        parts = []
        while not self.complete:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def discard(self) -> None:
        """Read and drop the rest of the body for up to LINGER_S seconds.

        Most clients read no answer before they have sent the whole body.
        """
        with suppress(TimeoutError):
            async with timeout(LINGER_S):
                while not self.complete:
                    message = await self._receive()
                    self.complete = not message.get("more_body", False)

    def _count_bytes(self, size: int) -> None:
        self._size += size
        if self._size > self.limit:
            raise BodyTooLarge(f"at most {self.limit} bytes")
        if more := min(self._size, self._in_memory) - self.held:
            self._intake.hold_bytes(self, more)


def replay_body(content: bytes, receive: Receive) -> Receive:
    """Return a receive channel that gives `content` as the whole body and then continues with `receive`."""
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive_replayed() -> Message:
        return messages.pop() if messages else await receive()

    return receive_replayed
