"""The transitions between the states of a memory: which action leads from which states to which, and what it sets.

Each transition is one row of the memory's history, whose `meta.transition` names the action. `restore` undoes each.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from app.domain.errors import WrongState
from app.domain.memory.memory import Memory, MemoryState


class Transition(StrEnum):
    """The actions that change the state of a memory."""

    supersede = "supersede"  # it was true, and a later statement took its place or it is so no longer
    retract = "retract"  # it was wrong
    expire = "expire"  # its `expires_at` is past
    delete = "delete"
    restore = "restore"


TARGETS: Final[Mapping[Transition, MemoryState]] = {
    Transition.supersede: MemoryState.superseded,
    Transition.retract: MemoryState.retracted,
    Transition.expire: MemoryState.expired,
    Transition.delete: MemoryState.soft_deleted,
    Transition.restore: MemoryState.active,
}
"""The state behind each transition."""

SOURCES: Final[Mapping[Transition, frozenset[MemoryState]]] = {
    Transition.supersede: frozenset({MemoryState.active}),
    Transition.retract: frozenset({MemoryState.active, MemoryState.superseded}),
    Transition.expire: frozenset({MemoryState.active}),
    Transition.delete: frozenset(MemoryState) - {MemoryState.soft_deleted},
    Transition.restore: frozenset(MemoryState) - {MemoryState.active},
}
"""The states that each transition begins in."""


def source_states(action: Transition) -> tuple[str, ...]:
    """Return the states that the stored memory must have, as `MemoryChange.expect_states` takes them."""
    return tuple(state.value for state in MemoryState if state in SOURCES[action])


def require_source(action: Transition, state: MemoryState) -> None:
    """Raise WrongState if the action does not begin in this state."""
    if state not in SOURCES[action]:
        raise WrongState(f"the memory is {state.in_words}")


def is_overdue(memory: Memory, now: datetime) -> bool:
    """Tell whether no answer has the memory because its `expires_at` is past, also before the job sets its state."""
    return memory.expires_at is not None and memory.expires_at <= now


def transition_meta(action: Transition) -> dict[str, Any]:
    """Return what the transition's row of history has beside the images."""
    return {"transition": action.value}


def superseding_fields(
    now: datetime,
    *,
    successor: UUID | None,
    ends_at: datetime,
    valid_from: datetime | None = None,
    valid_to: datetime | None = None,
) -> dict[str, Any]:
    """Return the fields of a memory that another one, or none, takes the place of.

    Its span ends at `ends_at`, the beginning of the later statement. An earlier end stays, and so does the end of a
    span that would end before it begins.
    """
    begins_later = valid_from is not None and valid_from >= ends_at
    ended_before = valid_to is not None and valid_to <= ends_at
    span = {} if begins_later or ended_before else {"valid_to": ends_at}
    state = TARGETS[Transition.supersede].value
    return {"state": state, "superseded_by": successor, "updated_at": now, **span}


def beginning_fields(
    begins_at: datetime, *, valid_from: datetime | None, valid_to: datetime | None
) -> dict[str, datetime]:
    """Return the fields of a statement that takes another one's place at `begins_at`: a beginning, if it has none."""
    ended_before = valid_to is not None and valid_to <= begins_at
    return {} if valid_from is not None or ended_before else {"valid_from": begins_at}


def retracting_fields(now: datetime) -> dict[str, Any]:
    """Return the fields of a memory that was wrong. A successor is one no longer."""
    return {"state": TARGETS[Transition.retract].value, "superseded_by": None, "updated_at": now}


def expiring_fields(now: datetime) -> dict[str, Any]:
    """Return the fields of a memory that expires."""
    return {"state": TARGETS[Transition.expire].value, "updated_at": now}


def deleting_fields(now: datetime, purge_at: datetime) -> dict[str, Any]:
    """Return the fields of a memory that is soft-deleted now, and purged at `purge_at`."""
    return {"state": TARGETS[Transition.delete].value, "purge_at": purge_at, "updated_at": now}


def restoring_fields(memory: Memory, now: datetime, valid_to: datetime | None) -> dict[str, Any]:
    """Return the fields of a memory that is active again. A past `expires_at` would hide it at once, so it goes.

    `valid_to`: the end of its span without the supersession that set it, or as it is.
    """
    return {
        "state": TARGETS[Transition.restore].value,
        "purge_at": None,
        "superseded_by": None,
        "valid_to": valid_to,
        "updated_at": now,
        **({"expires_at": None} if is_overdue(memory, now) else {}),
    }
