"""Feedback on turns: the calls that store it."""

from collections.abc import Sequence
from typing import Literal

from mnema_wire.turn_feedback import FeedbackIn, FeedbackOut, GateFeedbackIn, GateFeedbackOut, VerdictName

from mnema_client.calls import JSON, build_body, fill_body, idempotency_headers, model_reader
from mnema_client.requests import encode_body
from mnema_client.transport import Call
from mnema_client.turn_calls import conversation_path, turn_path


def turn_feedback(
    conversation_id: str,
    turn_id: str,
    reaction: VerdictName | None,
    text: str = "",
    *,
    user_id: str,
    origin: Literal["user", "machine"] = "user",
    confidence: float | None = None,
    apply_feedback_to_turn_log: bool = False,
    project_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[FeedbackOut]:
    """Store a reaction to a turn.

    The user's reaction replaces the user's one before, and None clears it. Those of machines add up; each needs a
    `confidence` of at least 0.70. `apply_feedback_to_turn_log`: show it in the turn's log too.
    """
    given = {  # all of them: a reaction of None is sent
        "user_id": user_id,
        "project_id": project_id,
        "origin": origin,
        "reaction": reaction,
        "text": text,
        "confidence": confidence,
        "apply_feedback_to_turn_log": apply_feedback_to_turn_log,
    }
    body = fill_body(FeedbackIn, given)
    headers = idempotency_headers(idempotency_key, JSON)
    path = f"{turn_path(conversation_id, turn_id)}/feedback"
    return Call("POST", path, model_reader(FeedbackOut), content=encode_body(body), headers=headers)


def gate_feedback(
    conversation_id: str,
    text: str,
    reaction: VerdictName,
    *,
    user_id: str,
    confidence: float,
    candidate_turn_ids: Sequence[str] | None = None,
    apply_feedback_to_turn_log: bool = False,
    project_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[GateFeedbackOut]:
    """Store a machine's reaction to the turn that the text is most likely about. The server chooses the turn.

    `candidate_turn_ids`: the turns to choose among, by default the newest 10.
    """
    body = build_body(
        GateFeedbackIn,
        user_id=user_id,
        project_id=project_id,
        text=text,
        reaction=reaction,
        confidence=confidence,
        candidate_turn_ids=candidate_turn_ids,
        apply_feedback_to_turn_log=apply_feedback_to_turn_log,
    )
    headers = idempotency_headers(idempotency_key, JSON)
    path = f"{conversation_path(conversation_id)}/feedback"
    return Call("POST", path, model_reader(GateFeedbackOut), content=encode_body(body), headers=headers)
