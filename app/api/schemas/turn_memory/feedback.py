"""Conversions between the bodies of feedback and the domain."""

from mnema_wire import turn_feedback as wire

from app.domain.turn_memory.feedback import GivenReaction, Origin, Reaction, Verdict
from app.usecases.turn_memory.feedback import Chosen


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
