"""Routes that read a turn with the chat model: the ctx-reconciler and the turn summarizer."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from mnema_wire import turn_extraction as wire

from app.api.deps import App, Writer
from app.api.errors import body_errors
from app.api.routes.turn_memory.turns import ConversationId, conversation_of
from app.api.transport.events import EVENTS, StreamedResult, run_while_connected
from app.api.transport.parameters import StrictRoute
from app.domain.reflection.model_usage import Usage
from app.domain.turn_memory.extraction import ReconciledTurn, SpecEntry, SummarisedTurn, read_signal_spec
from app.domain.turn_memory.signals import Signal
from app.ports import AnswerListener
from app.usecases.turn_memory.reconcile import TurnToReconcile
from app.usecases.turn_memory.summarize import TurnToSummarise

router = APIRouter(
    prefix="/conversations/{conversation_id:conversation}", tags=["turn_memory"], route_class=StrictRoute
)
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {EVENTS: {"schema": {"type": "string"}}}},
    **body_errors(404, 409),
}


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


@router.post("/reconcile", response_model=wire.ReconciledOut, responses=_RESPONSES)
async def reconcile(
    request: Request, app: App, principal: Writer, conversation_id: ConversationId, body: wire.ReconcileIn
) -> wire.ReconciledOut | Response:
    """Read the user's message with the chat model, and select the turns and buckets that matter for it.

    The selection is stored in the active set, so that later views show it. The fingerprint is not written. Each call
    costs tokens. Without a chat model the answer is 409 `no_chat_model`.
    """
    conversation = await conversation_of(app, principal, conversation_id, body)
    turn = to_turn_to_reconcile(body)

    async def work(listener: AnswerListener | None) -> wire.ReconciledOut:
        read = await app.turn_memory.reconcile.reconcile_turn(principal, conversation, turn, listener)
        return reconciled_body(*read)

    return StreamedResult(work, principal) if body.stream else await run_while_connected(request.receive, work(None))


@router.post("/summarize", response_model=wire.SummarizedOut, responses=_RESPONSES)
async def summarize(
    request: Request, app: App, principal: Writer, conversation_id: ConversationId, body: wire.SummarizeIn
) -> wire.SummarizedOut | Response:
    """Sum up a turn with the chat model, and find the assistant signals that the specification asks for.

    With `store`, both are stored in the turn. Each call costs tokens. Without a chat model the answer is 409
    `no_chat_model`.
    """
    conversation = await conversation_of(app, principal, conversation_id, body)
    turn = to_turn_to_summarise(body)

    async def work(listener: AnswerListener | None) -> wire.SummarizedOut:
        read = await app.turn_memory.summarise.summarise_turn(principal, conversation, turn, listener)
        return summarized_body(*read)

    return StreamedResult(work, principal) if body.stream else await run_while_connected(request.receive, work(None))
