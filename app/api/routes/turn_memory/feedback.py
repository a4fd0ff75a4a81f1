"""Routes of feedback on turns, and of the buckets of a conversation."""

from typing import Annotated

from fastapi import APIRouter, Query
from mnema_wire.turn_feedback import FeedbackIn, FeedbackOut, GateFeedbackIn, GateFeedbackOut
from mnema_wire.turn_views import Buckets

from app.api.deps import App, Reader, Writer
from app.api.errors import openapi_errors
from app.api.routes.turn_memory.turns import ConversationId, TurnId, UserId, conversation_of
from app.api.schemas.turn_memory.context import buckets_body
from app.api.schemas.turn_memory.feedback import feedback_body, gate_feedback_body, to_gate_reaction, to_reaction
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.buckets import BucketStatus

router = APIRouter(
    prefix="/conversations/{conversation_id:conversation}", tags=["turn_memory"], route_class=StrictRoute
)
_ERRORS = openapi_errors(400, 401, 403, 404, 409, 413, 422, 503)


@router.post("/turns/{turn_id:path}/feedback", response_model=FeedbackOut, responses=_ERRORS)
async def give_feedback(
    app: App,
    principal: Writer,
    conversation_id: ConversationId,
    turn_id: TurnId,
    body: FeedbackIn,
    idempotency_key: IdempotencyHeader = None,
) -> FeedbackOut:
    """Store a reaction to a turn. A user has one reaction to a turn; reactions of machines add up.

    Retry a machine's reaction with the same `Idempotency-Key` and body to add it once. A user's reaction needs no key.
    """
    conversation = await conversation_of(app, principal, conversation_id, body)
    key = retry_key("POST /conversations/turns/feedback", idempotency_key, body)
    reaction = await app.turn_memory.feedback.give_reaction(principal, conversation, turn_id, to_reaction(body), key)
    return feedback_body(reaction)


@router.post("/feedback", response_model=GateFeedbackOut, responses=_ERRORS)
async def give_feedback_by_text(
    app: App,
    principal: Writer,
    conversation_id: ConversationId,
    body: GateFeedbackIn,
    idempotency_key: IdempotencyHeader = None,
) -> GateFeedbackOut:
    """Store a machine's reaction to the turn that the text is most likely about.

    Retry with the same `Idempotency-Key` and body to add it once.
    """
    conversation = await conversation_of(app, principal, conversation_id, body)
    key = retry_key("POST /conversations/feedback", idempotency_key, body)
    given = to_gate_reaction(body)
    chosen = await app.turn_memory.feedback.give_by_text(principal, conversation, given, body.candidate_turn_ids, key)
    return gate_feedback_body(chosen)


@router.get("/buckets", response_model=Buckets, responses=openapi_errors(401, 403, 422, 503))
async def list_buckets(
    app: App,
    principal: Reader,
    conversation_id: ConversationId,
    user_id: UserId,
    status: Annotated[BucketStatus | None, Query(description="only buckets with this status; by default both")] = None,
) -> Buckets:
    """List the buckets of a conversation from the index. `GET …/artifacts` with `materialize` returns whole buckets."""
    conversation = Conversation(user_id, conversation_id)
    return buckets_body(await app.turn_memory.buckets.list_buckets(principal, conversation, status))
