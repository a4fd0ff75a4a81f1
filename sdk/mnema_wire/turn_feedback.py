"""Feedback on turns: requests and answers."""

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field

from mnema_wire.bases import Answered, words
from mnema_wire.checks import check_storable
from mnema_wire.fields import NOT_EMPTY, Identifier
from mnema_wire.turn_limits import CANDIDATES, MAX_FEEDBACK, MIN_CONFIDENCE
from mnema_wire.turn_memory import TurnMemoryIn, TurnTime

VerdictName = Literal["ok", "not_ok"]
FeedbackText = Annotated[str, Field(max_length=MAX_FEEDBACK), AfterValidator(check_storable)]
Confidence = Annotated[float, Field(ge=0, le=1, description=f"a machine needs at least {MIN_CONFIDENCE}")]
InLog = Annotated[bool, Field(description="show the reaction in the turn log too")]
_MACHINE_SAYS: Final[dict[str, Any]] = {"reaction": "not_ok", "text": "The arrows are wrong.", "confidence": 0.9}


class FeedbackIn(TurnMemoryIn):
    """A reaction to a turn. The user's replaces the user's one before, and null clears it; those of machines add up."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"user_id": "maya", "origin": "machine", **_MACHINE_SAYS}]},
    )
    origin: Literal["user", "machine"]
    reaction: VerdictName | None
    text: FeedbackText = ""
    confidence: Confidence | None = None
    apply_feedback_to_turn_log: InLog = False


class GateFeedbackIn(TurnMemoryIn):
    """A reaction that a gate found in a message. The server chooses the turn that it is about."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"user_id": "maya", **_MACHINE_SAYS}]})
    text: Annotated[FeedbackText, Field(json_schema_extra=NOT_EMPTY)]
    reaction: VerdictName
    confidence: Confidence
    candidate_turn_ids: Annotated[list[Identifier], Field(max_length=CANDIDATES)] | None = Field(
        default=None, description=f"turn ids or unique beginnings of them; by default the newest {CANDIDATES} turns"
    )
    apply_feedback_to_turn_log: InLog = False


class FeedbackOut(Answered):
    """A reaction to a turn. `reaction` is null if it was cleared."""

    turn_id: str
    ts: TurnTime
    origin: Annotated[str, words("user", "machine")]
    reaction: Annotated[str, words(*get_args(VerdictName))] | None
    text: str
    confidence: float | None
    objective: str


class CandidateOut(Answered):
    """A turn that the feedback may be about. score = 0.85 * similarity + 0.15 * recency."""

    turn_id: str
    score: float
    similarity: float
    recency: float


class GateFeedbackOut(FeedbackOut):
    """The reaction, and the turns among which its turn was chosen, best first."""

    score: float | None = Field(description="of the chosen turn; null in the answer to a retry")
    candidates: list[CandidateOut]
    degraded: str | None = Field(
        description="the code of an unavailable model: similarity is then the share of the feedback's words"
    )
