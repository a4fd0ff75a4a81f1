"""Responses of Mnema, with the field names of the HTTP API. Unknown fields are ignored; unknown words are kept."""

from uuid import UUID

from mnema_wire.bases import Answered


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
    error: LineError | None = None
