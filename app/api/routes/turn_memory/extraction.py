"""Routes that read a turn with the chat model: the ctx-reconciler and the turn summarizer."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from mnema_wire.turn_extraction import ReconciledOut, ReconcileIn, SummarizedOut, SummarizeIn

from app.api.deps import App, Writer
from app.api.errors import openapi_errors
from app.api.routes.turn_memory.turns import ConversationId, conversation_of
from app.api.schemas.turn_memory.extraction import (
    reconciled_body,
    summarized_body,
    to_turn_to_reconcile,
    to_turn_to_summarise,
)
from app.api.transport.events import EVENTS, StreamedResult, run_while_connected
from app.api.transport.parameters import StrictRoute
from app.ports import AnswerListener

router = APIRouter(
    prefix="/conversations/{conversation_id:conversation}", tags=["turn_memory"], route_class=StrictRoute
)
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {EVENTS: {"schema": {"type": "string"}}}},
    **openapi_errors(400, 401, 403, 404, 409, 413, 422, 503),
}


@router.post("/reconcile", response_model=ReconciledOut, responses=_RESPONSES)
async def reconcile(
    request: Request, app: App, principal: Writer, conversation_id: ConversationId, body: ReconcileIn
) -> ReconciledOut | Response:
    """Read the user's message with the chat model, and select the turns and buckets that matter for it.

    The selection is stored in the active set, so that later views show it. The fingerprint is not written. Each call
    costs tokens. Without a chat model the answer is 409 `no_chat_model`.
    """
    conversation = await conversation_of(app, principal, conversation_id, body)
    turn = to_turn_to_reconcile(body)

    async def work(listener: AnswerListener | None) -> ReconciledOut:
        read = await app.turn_memory.reconcile.reconcile_turn(principal, conversation, turn, listener)
        return reconciled_body(*read)

    return StreamedResult(work, principal) if body.stream else await run_while_connected(request.receive, work(None))


@router.post("/summarize", response_model=SummarizedOut, responses=_RESPONSES)
async def summarize(
    request: Request, app: App, principal: Writer, conversation_id: ConversationId, body: SummarizeIn
) -> SummarizedOut | Response:
    """Sum up a turn with the chat model, and find the assistant signals that the specification asks for.

    With `store`, both are stored in the turn. Each call costs tokens. Without a chat model the answer is 409
    `no_chat_model`.
    """
    conversation = await conversation_of(app, principal, conversation_id, body)
    turn = to_turn_to_summarise(body)

    async def work(listener: AnswerListener | None) -> SummarizedOut:
        read = await app.turn_memory.summarise.summarise_turn(principal, conversation, turn, listener)
        return summarized_body(*read)

    return StreamedResult(work, principal) if body.stream else await run_while_connected(request.receive, work(None))
