"""Feedback: reactions to turns of a user or of a machine, and the choice of the turn that a feedback is about.

A reaction changes the state of its turn: the artifact, and the feedbacks in the log.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mnema_wire.blocks import format_time
from mnema_wire.turn_limits import MAX_FEEDBACK, MIN_CONFIDENCE

from app.domain.errors import IdempotencyMismatch, InvalidInput, LowConfidence, NotFound, TooManyReactions
from app.domain.turn_memory.artifacts import REACTION_PREFIX, Artifact, ArtifactChange, ArtifactKind, parse_index
from app.domain.turn_memory.fingerprint import parse_time
from app.domain.turn_memory.signals import read_text
from app.domain.turn_memory.turn_state import TurnState

MAX_MACHINE: Final = 16
"""The most reactions of machines to one turn."""
SIMILARITY_SHARE: Final = 0.85
"""The share of similarity in the score of a candidate turn. The rest is recency."""
RECENCY_SHARE: Final = 0.15
_WORD: Final = re.compile(r"\w+")
USER_PLACE = "user:"
MACHINE_PLACE = "machine:"


class Origin(StrEnum):
    """The origins of feedback."""

    user = "user"
    machine = "machine"


class Verdict(StrEnum):
    """The reactions to a turn."""

    ok = "ok"
    not_ok = "not_ok"


@dataclass(frozen=True, slots=True)
class Reaction:
    """A reaction to a turn. `verdict` None clears the user's reaction and is never stored."""

    turn_id: str
    ts: datetime
    origin: Origin
    verdict: Verdict | None
    text: str = ""
    confidence: float | None = None
    objective: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the reaction as it is stored and answered, without the parts that it lacks."""
        shown = {
            "turn_id": self.turn_id,
            "ts": format_time(self.ts),
            "origin": self.origin.value,
            "reaction": None if self.verdict is None else self.verdict.value,
            "text": self.text,
        }
        more = {"confidence": self.confidence, "objective": self.objective or None}
        return shown | {name: value for name, value in more.items() if value is not None}

    def as_index(self) -> str:
        """Return the text of the index row."""
        return REACTION_PREFIX + json.dumps(self.as_json(), ensure_ascii=False)

    def tags(self) -> list[str]:
        """Return the tags of the artifact: its kind and its origin."""
        return [ArtifactKind.reaction.value, f"origin:{self.origin.value}"]


@dataclass(frozen=True, slots=True)
class GivenReaction:
    """A reaction as a client gives it. `in_log`: the turn log shows it too."""

    origin: Origin
    verdict: Verdict | None
    text: str = ""
    confidence: float | None = None
    in_log: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A turn that a feedback may be about, and the parts of its score."""

    turn_id: str
    similarity: float
    recency: float

    @property
    def score(self) -> float:
        """The weighted sum of similarity and recency, from 0 to 1."""
        return SIMILARITY_SHARE * self.similarity + RECENCY_SHARE * self.recency


def read_reaction(given: GivenReaction) -> GivenReaction:
    """Return a reaction with its text on one line. Raise InvalidInput or LowConfidence.

    A machine says ok or not_ok, with a confidence of at least MIN_CONFIDENCE.
    """
    if given.origin is Origin.machine:
        if given.verdict is None:
            raise InvalidInput("reaction: a machine says ok or not_ok; null clears a user's reaction", param="reaction")
        if given.confidence is None or not given.confidence >= MIN_CONFIDENCE:
            raise LowConfidence(f"confidence: a machine's reaction needs at least {MIN_CONFIDENCE:.2f}")
    text = read_text(given.text, "text", MAX_FEEDBACK)
    return GivenReaction(given.origin, given.verdict, text, given.confidence, given.in_log)


def parse_reaction(raw: Mapping[str, Any]) -> Reaction:
    """Return a stored reaction from its JSON."""
    return Reaction(
        raw["turn_id"],
        parse_time(raw["ts"]),
        Origin(raw["origin"]),
        None if raw["reaction"] is None else Verdict(raw["reaction"]),
        raw["text"],
        raw.get("confidence"),
        raw.get("objective", ""),
    )


def mirror_reaction(
    feedbacks: Sequence[Mapping[str, Any]], reaction: Reaction, *, in_log: bool
) -> tuple[Mapping[str, Any], ...]:
    """Return the feedbacks of a turn log after a reaction, oldest first.

    A user's reaction replaces the user's one before, or clears it. It is added if `in_log` is set or if the log had
    one of the user. A machine's reaction is added if `in_log` is set.
    """
    if reaction.origin is Origin.machine:
        kept = list(feedbacks)
        added = in_log
    else:
        kept = [shown for shown in feedbacks if shown["origin"] != Origin.user.value]
        added = reaction.verdict is not None and (in_log or len(kept) < len(feedbacks))
    return tuple(sorted([*kept, *([reaction.as_json()] if added else [])], key=lambda shown: str(shown["ts"])))


def rank_candidates(turn_ids: Sequence[str], similarities: Sequence[float]) -> list[Candidate]:
    """Return the candidates with the best score first; of equal ones, the newest first.

    `turn_ids` has the newest turn first. Recency falls from 1 for the newest turn in equal steps to 0 for the oldest.
    """
    steps = max(1, len(turn_ids) - 1)
    candidates = [
        Candidate(turn_id, min(1.0, max(0.0, similarity)), 1 - place / steps)
        for place, (turn_id, similarity) in enumerate(zip(turn_ids, similarities, strict=True))
    ]
    return sorted(candidates, key=lambda candidate: -candidate.score)


def share_words(text: str, others: Iterable[str]) -> list[float]:
    """Return for each other text the share of the words of `text` that it has, without regard to case."""
    words = find_words(text)
    return [len(words & find_words(other)) / len(words) if words else 0.0 for other in others]


def find_words(text: str) -> set[str]:
    """Return the words of a text in lower case."""
    return set(_WORD.findall(text.casefold()))


def apply_reaction(state: TurnState, given: GivenReaction, place: str) -> tuple[TurnState, Reaction]:
    """Return the state of a turn with a reaction at `place`, and the reaction.

    Raise NotFound for a turn without a log, TooManyReactions, or IdempotencyMismatch if a machine's reaction at the
    place is another one.
    """
    if state.log is None:
        raise NotFound("no such turn in this conversation of this user")
    stored = [row for row in state.stored if row.kind is ArtifactKind.reaction]
    before = next((row for row in stored if row.place == place), None)
    if given.origin is Origin.machine:
        if before is not None:
            return state, require_same(before, given)
        if sum(row.place.startswith(MACHINE_PLACE) for row in stored) >= MAX_MACHINE:
            raise TooManyReactions(f"machines may react to a turn {MAX_MACHINE} times")
    objective = state.fingerprint.objective if state.fingerprint else ""
    reaction = Reaction(state.turn_id, state.now, given.origin, given.verdict, given.text, given.confidence, objective)
    log = state.log.with_feedbacks(mirror_reaction(state.log.feedbacks, reaction, in_log=given.in_log))
    if before is None and reaction.verdict is None:
        return replace(state, log=log), reaction
    rows = [_reaction_row(state, reaction, before, place)]
    if log == state.log:
        rows.append(_unchanged_log(state))
    return replace(state, log=log, others=[*state.others, *rows]), reaction


def require_same(stored: Artifact, given: GivenReaction) -> Reaction:
    """Return the stored reaction. Raise IdempotencyMismatch if the given one says something else."""
    reaction = parse_reaction(parse_index(stored.text))
    if (reaction.verdict, reaction.text, reaction.confidence) != (given.verdict, given.text, given.confidence):
        raise IdempotencyMismatch()
    return reaction


def _reaction_row(state: TurnState, reaction: Reaction, before: Artifact | None, place: str) -> ArtifactChange:
    return ArtifactChange(
        ArtifactKind.reaction,
        place,
        None if reaction.verdict is None else reaction.as_index(),
        state.now,
        turn_id=state.turn_id,
        track_id=state.track_id,
        tags=reaction.tags(),
        expect=before.version if before else 0,
    )


def _unchanged_log(state: TurnState) -> ArtifactChange:
    """Return the row of the log as it is stored.

    Its version makes sure that the turn is still there, and that reactions at the same time count each other.
    """
    row = state.of_kind(ArtifactKind.turn_log)
    if row is None:
        raise AssertionError("a log has a row")
    return ArtifactChange(
        row.kind,
        row.place,
        row.text,
        row.made_at,
        turn_id=row.turn_id,
        track_id=row.track_id,
        tags=row.tags,
        hosted_uri=row.hosted_uri,
        expect=row.version,
    )
