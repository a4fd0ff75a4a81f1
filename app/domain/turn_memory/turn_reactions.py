"""The effect of a reaction on the state of its turn: the artifact, and the feedbacks in the log."""

from dataclasses import replace

from app.domain.errors import IdempotencyMismatch, NotFound, TooManyReactions
from app.domain.turn_memory.artifacts import Artifact, ArtifactChange, ArtifactKind, parse_index
from app.domain.turn_memory.feedback import (
    MAX_MACHINE,
    GivenReaction,
    Origin,
    Reaction,
    mirror_reaction,
    parse_reaction,
)
from app.domain.turn_memory.turn_state import TurnState

USER_PLACE = "user:"
MACHINE_PLACE = "machine:"


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
