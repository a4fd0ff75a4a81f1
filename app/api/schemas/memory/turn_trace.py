"""Conversions of the trace of a turn to its body."""

from collections.abc import Mapping
from typing import Any

from mnema_wire import turn_trace as wire

from app.domain.reflection.turn_trace import REASONS, Reading, SettledFact, TurnJob
from app.usecases.operations.turn_trace import TurnTrace, error_code


def trace_body(trace: TurnTrace, *, counts: bool, costs: bool) -> wire.TurnTrace:
    """Return the body. `counts`: show the readers' counts; `costs`: show tokens and the text of errors."""
    return wire.TurnTrace(
        id=trace.turn.id,
        user_id=trace.turn.user_id,
        thread_id=trace.turn.thread_id,
        has_model=trace.has_model,
        remembered=trace.remembered,
        stated=trace.stated,
        reasons=[wire.TraceReason(code=code, message=REASONS[code]) for code in trace.reasons],
        readings=[_reading_out(reading, counts=counts, costs=costs) for reading in trace.readings],
        facts=[_fact_out(fact, band) for fact, band in trace.facts],
        jobs=[_job_out(job, costs=costs) for job in trace.jobs],
    )


def _reading_out(reading: Reading, *, counts: bool, costs: bool) -> wire.TraceReading:
    shown: dict[str, Any] = {"reader": reading.reader, "why": reading.why}
    if counts:
        names = ("facts", "candidates", "known", "forgotten", "proposed", "refused", "vetoed", "deferred")
        shown |= {name: getattr(reading, name) for name in names if name == "facts" or getattr(reading, name)}
    if costs and reading.tokens:
        shown["tokens"] = reading.tokens
    return wire.TraceReading(**shown)


def _fact_out(fact: SettledFact, band: str | None) -> wire.TraceFact:
    values: Mapping[str, Any] = {name: getattr(fact, name) for name in SettledFact.__dataclass_fields__}
    return wire.TraceFact.model_validate({**values, "band": band})


def _job_out(job: TurnJob, *, costs: bool) -> wire.TraceJob:
    names = ("id", "kind", "state", "paused", "attempts", "next_run", "updated_at")
    error = {"error": error_code(job.last_error), "last_error": job.last_error if costs else None}
    return wire.TraceJob.model_validate({name: getattr(job, name) for name in names} | error)
