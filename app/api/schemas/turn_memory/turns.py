"""Conversions between the bodies of turns, artifacts and active sets and the domain."""

from collections.abc import Sequence
from typing import Any

from mnema_wire import turn_memory as wire

from app.domain.turn_memory.active_set import ActiveSet
from app.domain.turn_memory.fingerprint import Fingerprint
from app.usecases.turn_memory.active_set import Selection, UnknownIds
from app.usecases.turn_memory.artifacts import ReadArtifact
from app.usecases.turn_memory.turns import NewTurn, StoredTurn


def to_new_turn(body: wire.TurnLogIn, turn_id: str) -> NewTurn:
    """Return the turn to store."""
    return NewTurn(turn_id, **body.model_dump(exclude={"user_id", "project_id"}))


def to_raw_fingerprint(body: wire.FingerprintIn) -> dict[str, Any]:
    """Return the parts of the fingerprint itself."""
    return body.model_dump(exclude={"user_id", "project_id", "track_id", "made_at", "extra_tags"})


def to_selection(body: wire.ActiveSetIn) -> Selection:
    """Return the selection."""
    turns = body.selected_local_memories_turn_ids
    buckets = body.picked_bucket_ids
    return Selection(
        None if turns is None else tuple(turns),
        None if buckets is None else tuple(buckets),
        body.conversation_title,
    )


def fingerprint_body(fingerprint: Fingerprint, extra_tags: Sequence[str]) -> wire.FingerprintOut:
    """Return the body for a stored fingerprint."""
    tags = list(dict.fromkeys((*fingerprint.tags(), *extra_tags)))
    return wire.FingerprintOut(fingerprint=fingerprint.as_json(), tags=tags)


def stored_turn_body(stored: StoredTurn, conversation_id: str) -> wire.StoredTurnOut:
    """Return the body for a stored turn."""
    state = stored.state
    return wire.StoredTurnOut(
        turn_id=state.turn_id,
        conversation_id=conversation_id,
        track_id=state.track_id,
        made_at=state.log.made_at if state.log else state.now,
        created=stored.created,
    )


def artifact_body(read: ReadArtifact) -> wire.ArtifactOut:
    """Return the body for an artifact."""
    one = read.artifact
    names = wire.ArtifactOut.model_fields.keys() - {"content", "tags"}
    return wire.ArtifactOut(**{name: getattr(one, name) for name in names}, tags=list(one.tags), content=read.content)


def active_set_body(active: ActiveSet, unknown: UnknownIds | None = None) -> wire.ActiveSetOut:
    """Return the body for an active set."""
    turns, buckets = unknown or ((), ())
    return wire.ActiveSetOut(**active.as_json(), unknown_turn_ids=list(turns), unknown_bucket_ids=list(buckets))
