"""The trace of a turn: what the background work made of it, and why nothing was remembered."""

from datetime import datetime
from uuid import UUID

from mnema_client.answered import Answered
from mnema_client.calls import model_reader, path_id
from mnema_client.transport import Call


class TraceReason(Answered):
    """A reason why nothing, or less, was remembered. `code` is one of the table in docs/operations.md."""

    code: str
    message: str


class TraceReading(Answered):
    """The verdict of a reader. `why`: the code of the reason why it stored nothing; None if it stored something.

    Counts are None for a key bound to agents; `tokens` needs scope admin. `refused`: items of the model's answer that
    broke a rule, by rule. `vetoed`: changes that the turn does not support, by reason. `deferred`: facts beyond a
    limit, which a job of another day adds.
    """

    reader: str
    why: str | None
    facts: int | None = None
    candidates: int | None = None
    known: int | None = None
    forgotten: int | None = None
    proposed: int | None = None
    refused: dict[str, int] | None = None
    vetoed: dict[str, int] | None = None
    deferred: int | None = None
    tokens: int | None = None


class TraceFact(Answered):
    """A fact that was found, and what was done with it. `quote`: the words of the turn that state it.

    `band`: `same`, `unsure` or `different`, by the best similarity among the memories compared.
    """

    reader: str
    number: int | None
    action: str
    reason: str | None = None
    memory_id: UUID | None
    matched_id: UUID | None = None
    similarity: float | None = None
    band: str | None = None
    category: str | None = None
    state: str | None = None
    text: str | None = None
    quote: str | None = None


class TraceJob(Answered):
    """A job of the turn. `error`: the code of its last error; `last_error`, its text, needs scope admin."""

    id: UUID
    kind: str
    state: str
    paused: bool
    attempts: int
    next_run: datetime
    updated_at: datetime
    error: str | None = None
    last_error: str | None = None


class TurnTrace(Answered):
    """The trace of a turn. `reasons`: why nothing was remembered; empty if all is done.

    `remembered`: memories that the key may see; `stated`: facts in lists and single values that the turn stated.
    """

    id: UUID
    user_id: str
    thread_id: str | None
    has_model: bool
    remembered: int
    stated: int
    reasons: list[TraceReason]
    readings: list[TraceReading]
    facts: list[TraceFact]
    jobs: list[TraceJob]


def turn_trace(turn_id: UUID | str) -> Call[TurnTrace]:
    """Explain what the background work made of a turn; `turn_id` is the id that `add_turn` returned."""
    return Call("GET", f"/turns/{path_id(turn_id)}/trace", model_reader(TurnTrace))
