"""The trace of a turn: what the background work made of it."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, is_absent, words

_READERS = ("commands", "capture", "multi_fact", "episode", "summary", "insight", "workflow")


class TraceReason(Answered):
    """A reason why nothing, or less, was remembered."""

    code: str = Field(description="a code of the table in docs/operations.md")
    message: str = Field(description="the reason as a sentence")


class TraceReading(Answered):
    """The verdict of a reader. The counts are absent for a key bound to agents, and if the reader does not count."""

    model_config = ConfigDict(from_attributes=True)
    reader: Annotated[str, words(*_READERS)] = Field(
        description="`commands` carries out what the turn says of stored statements, `capture` reads plain statements, "
        "both without a chat model; `multi_fact` and `workflow` read the turn with one, the others its thread or user"
    )
    why: str | None = Field(description="code of the reason why the reader stored nothing; null if it stored something")
    facts: int | None = Field(default=None, exclude_if=is_absent, description="memories written")
    candidates: int | None = Field(default=None, exclude_if=is_absent, description="valid facts of the model's answer")
    known: int | None = Field(default=None, exclude_if=is_absent, description="candidates that were known already")
    forgotten: int | None = Field(default=None, exclude_if=is_absent, description="memories that the turn contradicts")
    proposed: int | None = Field(default=None, exclude_if=is_absent, description="proposals that the user decides")
    refused: dict[str, int] | None = Field(
        default=None, exclude_if=is_absent, description="facts of the model's answer that broke a rule, by rule"
    )
    vetoed: dict[str, int] | None = Field(
        default=None, exclude_if=is_absent, description="changes of memories that the turn does not support, by reason"
    )
    deferred: int | None = Field(
        default=None, exclude_if=is_absent, description="facts beyond a limit, which a job of another day adds"
    )
    tokens: int | None = Field(
        default=None, exclude_if=is_absent, description="tokens of the model's calls; only with scope admin"
    )


class TraceFact(Answered):
    """A fact that a reader found, and what was done with it."""

    reader: Annotated[str, words("capture", "multi_fact")] = Field(description="the reader that found it")
    number: int | None = Field(description="place in the turn; null for a memory that the turn contradicts")
    action: str = Field(description="created, updated, merged, unchanged, skipped or deleted")
    reason: str | None = Field(default=None, exclude_if=is_absent, description="why it was skipped")
    memory_id: UUID | None = Field(description="the memory; null if it was not stored or is gone")
    matched_id: UUID | None = Field(default=None, exclude_if=is_absent, description="the memory that it matched")
    similarity: float | None = Field(
        default=None, exclude_if=is_absent, description="best cosine among the memories compared"
    )
    band: Annotated[str, words("same", "unsure", "different")] | None = Field(
        default=None,
        exclude_if=is_absent,
        description="band of the similarity; in `unsure`, a rule or a judge decides whether it is the same fact",
    )
    category: str | None = Field(default=None, exclude_if=is_absent)
    state: str | None = Field(default=None, exclude_if=is_absent)
    text: str | None = Field(default=None, exclude_if=is_absent, description="the memory's text as it is now")
    quote: str | None = Field(default=None, exclude_if=is_absent, description="the words of the turn that state it")


class TraceJob(Answered):
    """A job of the turn."""

    id: UUID = Field(description="id for GET /jobs/{job_id}, which needs scope admin")
    kind: str
    state: Annotated[str, words("queued", "running", "done", "dead")]
    paused: bool = Field(description="jobs of this kind do not start")
    attempts: int
    next_run: datetime = Field(description="when a worker may start it")
    updated_at: datetime
    error: str | None = Field(default=None, exclude_if=is_absent, description="code of the last error")
    last_error: str | None = Field(default=None, exclude_if=is_absent, description="only with scope admin")


class TurnTrace(Answered):
    """The trace of a turn: what the background work made of it."""

    id: UUID
    user_id: str
    thread_id: str | None
    has_model: bool = Field(description="this server has a chat model configured")
    remembered: int = Field(description="memories written from the turn's facts that this key may see")
    stated: int = Field(description="facts in ranked lists and single values that the turn stated (`docs/facts.md`)")
    reasons: list[TraceReason] = Field(
        description="why nothing was remembered; unfinished jobs also if something was. Empty if all is done"
    )
    readings: list[TraceReading] = Field(description="the verdict of each reader")
    facts: list[TraceFact]
    jobs: list[TraceJob] = Field(description="the jobs of the turn")
