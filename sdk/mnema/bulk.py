"""Many memories in few requests."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mnema.calls import ignore_body
from mnema.errors import BrokenOff
from mnema.models import BulkResult
from mnema.requests import NewMemory
from mnema.transport import Call

LINES_A_REQUEST = 1000
BYTES_A_REQUEST = 4 << 20
MAX_ATTEMPTS = 5


def split_batches(memories: Iterable[NewMemory | Mapping[str, Any]], *, trim: bool = False) -> Iterator["BulkRequest"]:
    """The requests that write these memories: at most 1,000 of them and 4 MiB each, read as they are needed."""
    lines: list[bytes] = []
    first, size = 1, 0
    for memory in memories:
        line = (memory if isinstance(memory, NewMemory) else NewMemory.model_validate(memory)).body() + b"\n"
        if lines and (len(lines) == LINES_A_REQUEST or size + len(line) > BYTES_A_REQUEST):
            yield BulkRequest(lines, first, trim)
            lines, first, size = [], first + len(lines), 0
        lines.append(line)
        size += len(line)
    if lines:
        yield BulkRequest(lines, first, trim)


class BulkRequest:
    """One request of many lines. When its answer breaks off it can be sent again and goes on behind the last line that
    was answered: with its Idempotency-Key the server does every line once."""

    def __init__(self, lines: list[bytes], first: int, trim: bool) -> None:
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": uuid.uuid4().hex}
        params = {"trim": "true"} if trim else {}
        self.call: Call[None] = Call("POST", "/memory/bulk", ignore_body, params, b"".join(lines), headers)
        self._first = first
        self._left = len(lines)
        self._answered = 0
        self._sent = 0

    def read_result(self, document: Any) -> BulkResult | None:
        """One line of the answer, numbered as the caller counts; None when it was answered before."""
        result = BulkResult.model_validate(document)
        if result.line <= self._answered:
            return None
        self._answered = result.line
        self._left -= 1
        return result.model_copy(update={"line": self._first + result.line - 1})

    def begin_attempt(self, error: BrokenOff | None) -> bool:
        """Whether to send it, for the first time or again; raises the error when that was tried enough."""
        if not self._left:
            return False
        self._sent += 1
        if self._sent > MAX_ATTEMPTS:
            raise error or BrokenOff(f"{self._left} lines have no answer", code="broken_off")
        return True
