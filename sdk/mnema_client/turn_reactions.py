"""Feedback on turns: the calls that store it, their bodies and answers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from mnema_client.answered import Answered
from mnema_client.calls import JSON, build_body, idempotency_headers, model_reader
from mnema_client.requests import Sent
from mnema_client.transport import Call
from mnema_client.turn_calls import conversation_path, turn_path

Verdict = Literal["ok", "not_ok"]


class NewFeedback(Sent):
    """A reaction to a turn."""

    user_id: str
    project_id: str | None = None
    origin: Literal["user", "machine"]
    reaction: Verdict | None
    text: str = ""
    confidence: float | None = None
    apply_feedback_to_turn_log: bool = False


class NewGateFeedback(Sent):
    """A reaction that a gate found in a message."""

    user_id: str
    project_id: str | None = None
    text: str
    reaction: Verdict
    confidence: float
    candidate_turn_ids: list[str] | None = None
    apply_feedback_to_turn_log: bool = False


class TurnFeedback(Answered):
    """A reaction to a turn. `reaction` is None if it was cleared."""

    turn_id: str
    ts: datetime
    origin: str
    reaction: str | None
    text: str
    confidence: float | None = None
    objective: str


class CandidateTurn(Answered):
    """A turn that a feedback may be about. score = 0.85 * similarity + 0.15 * recency."""

    turn_id: str
    score: float
    similarity: float
    recency: float


class GateFeedback(TurnFeedback):
    """A reaction, and the turns among which its turn was chosen, best first.

    `score`: of the chosen turn, None in the answer to a retry. `degraded`: the code of an unavailable model.
    """

    score: float | None = None
    candidates: list[CandidateTurn]
    degraded: str | None = None


def turn_feedback(
    conversation_id: str,
    turn_id: str,
    reaction: Verdict | None,
    text: str = "",
    *,
    user_id: str,
    origin: Literal["user", "machine"] = "user",
    confidence: float | None = None,
    apply_feedback_to_turn_log: bool = False,
    project_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[TurnFeedback]:
    """Store a reaction to a turn.

    The user's reaction replaces the user's one before, and None clears it. Those of machines add up; each needs a
    `confidence` of at least 0.70. `apply_feedback_to_turn_log`: show it in the turn's log too.
    """
    body = NewFeedback(  # reaction None is sent
        user_id=user_id,
        project_id=project_id,
        origin=origin,
        reaction=reaction,
        text=text,
        confidence=confidence,
        apply_feedback_to_turn_log=apply_feedback_to_turn_log,
    )
    headers = idempotency_headers(idempotency_key, JSON)
    path = f"{turn_path(conversation_id, turn_id)}/feedback"
    return Call("POST", path, model_reader(TurnFeedback), content=body.body(), headers=headers)


def gate_feedback(
    conversation_id: str,
    text: str,
    reaction: Verdict,
    *,
    user_id: str,
    confidence: float,
    candidate_turn_ids: Sequence[str] | None = None,
    apply_feedback_to_turn_log: bool = False,
    project_id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[GateFeedback]:
    """Store a machine's reaction to the turn that the text is most likely about. The server chooses the turn.

    `candidate_turn_ids`: the turns to choose among, by default the newest 10.
    """
    body = build_body(
        NewGateFeedback,
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
    return Call("POST", path, model_reader(GateFeedback), content=body.body(), headers=headers)
