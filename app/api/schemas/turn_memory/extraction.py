"""Conversions between the bodies of turns that a chat model reads and the domain."""

from mnema_wire import turn_extraction as wire

from app.domain.reflection.model_usage import Usage
from app.domain.turn_memory.extraction import ReconciledTurn, SpecEntry, SummarisedTurn, read_signal_spec
from app.domain.turn_memory.signals import Signal
from app.usecases.turn_memory.reconcile import TurnToReconcile
from app.usecases.turn_memory.summarize import TurnToSummarise


def to_turn_to_reconcile(body: wire.ReconcileIn) -> TurnToReconcile:
    """Return the turn to read."""
    return TurnToReconcile(body.turn_id, body.user_text, body.timezone)


def to_turn_to_summarise(body: wire.SummarizeIn) -> TurnToSummarise:
    """Return the turn to sum up. Raise InvalidInput for a specification that is too large."""
    given = body.assistant_signal_spec
    entries = given if given is None or isinstance(given, str) else [_to_spec_entry(entry) for entry in given]
    spec = read_signal_spec(entries)
    return TurnToSummarise(body.turn_id, body.user_text, body.assistant_text, spec, stores=body.store)


def _to_spec_entry(entry: wire.SpecEntryIn) -> SpecEntry:
    return SpecEntry(entry.key, entry.description, tuple(entry.values))


def reconciled_body(turn: ReconciledTurn, usage: Usage) -> wire.ReconciledOut:
    """Return the body for a turn that was read."""
    return wire.ReconciledOut(
        objective=turn.objective,
        topics=list(turn.topics),
        assertions=list(map(_signal_body, turn.assertions)),
        exceptions=list(map(_signal_body, turn.exceptions)),
        facts=list(map(_signal_body, turn.facts)),
        turn_ids=list(turn.turn_ids),
        memory_bucket_ids=list(turn.memory_bucket_ids),
        local_memories_turn_ids=list(turn.local_memories_turn_ids),
        usage=_usage_body(usage),
    )


def summarized_body(turn: SummarisedTurn, usage: Usage) -> wire.SummarizedOut:
    """Return the body for a turn that was summed up."""
    signals = list(map(_signal_body, turn.assistant_signals))
    return wire.SummarizedOut(summary=turn.summary, assistant_signals=signals, usage=_usage_body(usage))


def _signal_body(signal: Signal) -> wire.ExtractedSignalOut:
    return wire.ExtractedSignalOut(**signal.as_json())


def _usage_body(usage: Usage) -> wire.UsageOut:
    return wire.UsageOut(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=usage.total_tokens
    )
