"""Routes of feedback on turns, and of the buckets of a conversation."""

from typing import Annotated

from fastapi import APIRouter, Query
from mnema_wire import turn_feedback as wire
from mnema_wire.turn_views import Buckets

from app.api.deps import App, Reader, Writer
from app.api.errors import body_errors, key_errors
from app.api.routes.turn_memory.turns import ConversationId, TurnId, UserId, conversation_of
from app.api.schemas.turn_memory.context import buckets_body
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.buckets import BucketStatus
from app.domain.turn_memory.feedback import GivenReaction, Origin, Reaction, Verdict
from app.usecases.turn_memory.feedback import Chosen

router = APIRouter(
    prefix="/conversations/{conversation_id:conversation}", tags=["turn_memory"], route_class=StrictRoute
)
_ERRORS = body_errors(404, 409)


def to_reaction(body: wire.FeedbackIn) -> GivenReaction:
    """Return the reaction to store."""
    verdict = None if body.reaction is None else Verdict(body.reaction)
    in_log = body.apply_feedback_to_turn_log
    return GivenReaction(Origin(body.origin), verdict, body.text, body.confidence, in_log)


def to_gate_reaction(body: wire.GateFeedbackIn) -> GivenReaction:
    """Return the reaction of a machine to store."""
    verdict = Verdict(body.reaction)
    in_log = body.apply_feedback_to_turn_log
    return GivenReaction(Origin.machine, verdict, body.text, body.confidence, in_log)


def feedback_body(reaction: Reaction) -> wire.FeedbackOut:
    """Return the body for a reaction."""
    return wire.FeedbackOut(**{"confidence": None, "objective": ""} | reaction.as_json())


def gate_feedback_body(chosen: Chosen) -> wire.GateFeedbackOut:
    """Return the body for a reaction whose turn was chosen."""
    candidates = [
        wire.CandidateOut(turn_id=one.turn_id, score=one.score, similarity=one.similarity, recency=one.recency)
        for one in chosen.candidates
    ]
    score = candidates[0].score if candidates else None
    parts = feedback_body(chosen.reaction).model_dump()
    return wire.GateFeedbackOut(**parts, score=score, candidates=candidates, degraded=chosen.degraded)


@router.post("/turns/{turn_id:path}/feedback", responses=_ERRORS)
async def give_feedback(
    app: App,
    principal: Writer,
    conversation_id: ConversationId,
    turn_id: TurnId,
    body: wire.FeedbackIn,
    idempotency_key: IdempotencyHeader = None,
) -> wire.FeedbackOut:
    """Store a reaction to a turn. A user has one reaction to a turn; reactions of machines add up.

    Retry a machine's reaction with the same `Idempotency-Key` and body to add it once. A user's reaction needs no key.
    """
    conversation = await conversation_of(app, principal, conversation_id, body)
    key = retry_key("POST /conversations/turns/feedback", idempotency_key, body)
    reaction = await app.turn_memory.feedback.give_reaction(principal, conversation, turn_id, to_reaction(body), key)
    return feedback_body(reaction)


@router.post("/feedback", responses=_ERRORS)
async def give_feedback_by_text(
    app: App,
    principal: Writer,
    conversation_id: ConversationId,
    body: wire.GateFeedbackIn,
    idempotency_key: IdempotencyHeader = None,
) -> wire.GateFeedbackOut:
    """Store a machine's reaction to the turn that the text is most likely about.

    Retry with the same `Idempotency-Key` and body to add it once.
    """
    conversation = await conversation_of(app, principal, conversation_id, body)
    key = retry_key("POST /conversations/feedback", idempotency_key, body)
    given = to_gate_reaction(body)
    chosen = await app.turn_memory.feedback.give_by_text(principal, conversation, given, body.candidate_turn_ids, key)
    return gate_feedback_body(chosen)


@router.get("/buckets", responses=key_errors())
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
