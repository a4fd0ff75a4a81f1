"""Writing many memories in few requests, and the result of each line."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from mnema_wire.bases import Answered
from mnema_wire.memory import MemoryLine, NewMemory

from mnema_client.calls import build_body, ignore_body
from mnema_client.errors import BrokenOff
from mnema_client.requests import encode_body
from mnema_client.transport import Call


class LineError(Answered):
    """The error of a refused line of `remember_many`. `retry_after`: seconds until a quota allows it."""

    code: str
    status: int
    detail: str
    retry_after: int | None = None


class BulkResult(Answered):
    """The result of line number `line` (from 1): an `error`, or the fields of `Written`."""

    line: int
    id: UUID | None = None
    action: str | None = None
    matched_id: UUID | None = None
    similarity: float | None = None
    related: int = 0
    revision: int | None = None
    reason: str | None = None
    state: str | None = None
    superseded_by: UUID | None = None
    error: LineError | None = None


LINES_A_REQUEST = 1000
BYTES_A_REQUEST = 4 << 20
MAX_ATTEMPTS = 5


def split_batches(memories: Iterable[NewMemory | Mapping[str, Any]], *, trim: bool = False) -> Iterator["BulkRequest"]:
    """Yield requests of at most 1,000 memories and 4 MiB each; `memories` is read as they are needed."""
    lines: list[bytes] = []
    first = 1
    size = 0
    for memory in memories:
        body = memory if isinstance(memory, NewMemory) else build_body(MemoryLine, **memory)
        line = encode_body(body) + b"\n"
        if lines and (len(lines) == LINES_A_REQUEST or size + len(line) > BYTES_A_REQUEST):
            yield BulkRequest(lines, first, trim)
            lines, first, size = [], first + len(lines), 0
        lines.append(line)
        size += len(line)
    if lines:
        yield BulkRequest(lines, first, trim)


class BulkRequest:
    """One request of many lines.

    If its response breaks off, send it again: it goes on after the last answered line. With its Idempotency-Key the
    server writes every line once.
    """

    def __init__(self, lines: list[bytes], first: int, trim: bool) -> None:
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": uuid.uuid4().hex}
        params = {"trim": "true"} if trim else {}
        self.call: Call[None] = Call("POST", "/memory/bulk", ignore_body, params, b"".join(lines), headers)
        self._first = first
        self._left = len(lines)
        self._answered = 0
        self._sent = 0

    def read_result(self, document: Any) -> BulkResult | None:
        """Return one result with the caller's line number; None if it was read in an earlier attempt."""
        result = BulkResult.model_validate(document)
        if result.line <= self._answered:
            return None
        self._answered = result.line
        self._left -= 1
        return result.model_copy(update={"line": self._first + result.line - 1})

    def begin_attempt(self, error: BrokenOff | None) -> bool:
        """Tell whether to send the request, for the first time or again. Raise `error` after MAX_ATTEMPTS attempts."""
        if not self._left:
            return False
        self._sent += 1
        if self._sent > MAX_ATTEMPTS:
            raise error or BrokenOff(f"{self._left} lines have no answer", code="broken_off")
        return True
