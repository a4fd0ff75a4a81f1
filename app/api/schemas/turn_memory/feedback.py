"""Bodies of the routes of feedback and of buckets (`docs/turn-memory.md`)."""

from typing import Annotated, Any, Final, Literal

from mnema_wire.checks import check_storable
from mnema_wire.fields import NOT_EMPTY, Identifier
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.api.schemas.turn_memory.turns import TurnMemoryIn
from app.domain.turn_memory.feedback import (
    CANDIDATES,
    MAX_FEEDBACK,
    MIN_CONFIDENCE,
    GivenReaction,
    Origin,
    Reaction,
    Verdict,
)
from app.usecases.turn_memory.feedback import Chosen

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

    def to_domain(self) -> GivenReaction:
        """Return the reaction to store."""
        verdict = None if self.reaction is None else Verdict(self.reaction)
        return GivenReaction(Origin(self.origin), verdict, self.text, self.confidence, self.apply_feedback_to_turn_log)


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

    def to_domain(self) -> GivenReaction:
        """Return the reaction to store."""
        verdict = Verdict(self.reaction)
        in_log = self.apply_feedback_to_turn_log
        return GivenReaction(Origin.machine, verdict, self.text, self.confidence, in_log)


class FeedbackOut(BaseModel):
    """A reaction to a turn. `reaction` is null if it was cleared."""

    turn_id: str
    ts: str
    origin: Literal["user", "machine"]
    reaction: VerdictName | None
    text: str
    confidence: float | None
    objective: str

    @classmethod
    def from_reaction(cls, reaction: Reaction) -> "FeedbackOut":
        """Return the body for a reaction."""
        return cls(**{"confidence": None, "objective": ""} | reaction.as_json())


class CandidateOut(BaseModel):
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

    @classmethod
    def from_chosen(cls, chosen: Chosen) -> "GateFeedbackOut":
        """Return the body for a reaction whose turn was chosen."""
        candidates = [
            CandidateOut(turn_id=one.turn_id, score=one.score, similarity=one.similarity, recency=one.recency)
            for one in chosen.candidates
        ]
        score = candidates[0].score if candidates else None
        parts = FeedbackOut.from_reaction(chosen.reaction).model_dump()
        return cls(**parts, score=score, candidates=candidates, degraded=chosen.degraded)
