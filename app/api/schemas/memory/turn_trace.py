"""The body of GET /turns/{memory_id}/trace."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from mnema_wire.bases import is_absent
from pydantic import BaseModel, ConfigDict, Field

from app.domain.jobs.job import JobState
from app.domain.reflection.turn_trace import REASONS, Reading, SettledFact, TurnJob
from app.usecases.operations.turn_trace import TurnTrace, error_code


class TraceReasonOut(BaseModel):
    """A reason why nothing, or less, was remembered."""

    code: str = Field(description="a code of the table in docs/operations.md")
    message: str = Field(description="the reason as a sentence")


class TraceReadingOut(BaseModel):
    """The verdict of a reader. The counts are absent for a key bound to agents, and if the reader does not count."""

    model_config = ConfigDict(from_attributes=True)
    reader: Literal["capture", "multi_fact", "episode", "summary", "insight", "workflow"] = Field(
        description="`capture` reads plain statements without a chat model; `multi_fact` and `workflow` read the turn "
        "with one, the others its thread or user"
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


class TraceFactOut(BaseModel):
    """A fact that a reader found, and what was done with it."""

    reader: Literal["capture", "multi_fact"] = Field(description="the reader that found it")
    number: int | None = Field(description="place in the turn; null for a memory that the turn contradicts")
    action: str = Field(description="created, updated, merged, unchanged, skipped or deleted")
    reason: str | None = Field(default=None, exclude_if=is_absent, description="why it was skipped")
    memory_id: UUID | None = Field(description="the memory; null if it was not stored or is gone")
    matched_id: UUID | None = Field(default=None, exclude_if=is_absent, description="the memory that it matched")
    similarity: float | None = Field(
        default=None, exclude_if=is_absent, description="best cosine among the memories compared"
    )
    band: Literal["same", "unsure", "different"] | None = Field(
        default=None,
        exclude_if=is_absent,
        description="band of the similarity; in `unsure`, a rule or a judge decides whether it is the same fact",
    )
    category: str | None = Field(default=None, exclude_if=is_absent)
    state: str | None = Field(default=None, exclude_if=is_absent)
    text: str | None = Field(default=None, exclude_if=is_absent, description="the memory's text as it is now")
    quote: str | None = Field(default=None, exclude_if=is_absent, description="the words of the turn that state it")


class TraceJobOut(BaseModel):
    """A job of the turn."""

    id: UUID = Field(description="id for GET /jobs/{job_id}, which needs scope admin")
    kind: str
    state: JobState
    paused: bool = Field(description="jobs of this kind do not start")
    attempts: int
    next_run: datetime = Field(description="when a worker may start it")
    updated_at: datetime
    error: str | None = Field(default=None, exclude_if=is_absent, description="code of the last error")
    last_error: str | None = Field(default=None, exclude_if=is_absent, description="only with scope admin")


class TurnTraceOut(BaseModel):
    """The trace of a turn: what the background work made of it."""

    id: UUID
    user_id: str
    thread_id: str | None
    has_model: bool = Field(description="this server has a chat model configured")
    remembered: int = Field(description="memories written from the turn's facts that this key may see")
    stated: int = Field(description="facts in ranked lists and single values that the turn stated (`docs/facts.md`)")
    reasons: list[TraceReasonOut] = Field(
        description="why nothing was remembered; unfinished jobs also if something was. Empty if all is done"
    )
    readings: list[TraceReadingOut] = Field(description="the verdict of each reader")
    facts: list[TraceFactOut]
    jobs: list[TraceJobOut] = Field(description="the jobs of the turn")

    @classmethod
    def from_trace(cls, trace: TurnTrace, *, counts: bool, costs: bool) -> "TurnTraceOut":
        """Return the body. `counts`: show the readers' counts; `costs`: show tokens and the text of errors."""
        return cls(
            id=trace.turn.id,
            user_id=trace.turn.user_id,
            thread_id=trace.turn.thread_id,
            has_model=trace.has_model,
            remembered=trace.remembered,
            stated=trace.stated,
            reasons=[TraceReasonOut(code=code, message=REASONS[code]) for code in trace.reasons],
            readings=[_reading_out(reading, counts=counts, costs=costs) for reading in trace.readings],
            facts=[_fact_out(fact, band) for fact, band in trace.facts],
            jobs=[_job_out(job, costs=costs) for job in trace.jobs],
        )


def _reading_out(reading: Reading, *, counts: bool, costs: bool) -> TraceReadingOut:
    shown: dict[str, Any] = {"reader": reading.reader, "why": reading.why}
    if counts:
        names = ("facts", "candidates", "known", "forgotten", "proposed", "refused", "vetoed", "deferred")
        shown |= {name: getattr(reading, name) for name in names if name == "facts" or getattr(reading, name)}
    if costs and reading.tokens:
        shown["tokens"] = reading.tokens
    return TraceReadingOut(**shown)


def _fact_out(fact: SettledFact, band: str | None) -> TraceFactOut:
    values: Mapping[str, Any] = {name: getattr(fact, name) for name in SettledFact.__dataclass_fields__}
    return TraceFactOut.model_validate({**values, "band": band})


def _job_out(job: TurnJob, *, costs: bool) -> TraceJobOut:
    names = ("id", "kind", "state", "paused", "attempts", "next_run", "updated_at")
    error = {"error": error_code(job.last_error), "last_error": job.last_error if costs else None}
    return TraceJobOut.model_validate({name: getattr(job, name) for name in names} | error)
