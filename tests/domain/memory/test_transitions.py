"""The transitions between the states of a memory."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.domain.errors import WrongState
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.memory.transitions import (
    TARGETS,
    Transition,
    deleting_fields,
    expiring_fields,
    require_source,
    restoring_fields,
    retracting_fields,
    source_states,
    superseding_fields,
)

NOW = datetime(2026, 11, 28, tzinfo=UTC)
EARLIER, LATER = NOW - timedelta(days=30), NOW + timedelta(days=30)
NEXT = UUID(int=2)

LEADS = {
    ("active", "supersede"): "superseded",
    ("active", "retract"): "retracted",
    ("active", "expire"): "expired",
    ("active", "delete"): "soft_deleted",
    ("superseded", "retract"): "retracted",
    ("superseded", "delete"): "soft_deleted",
    ("superseded", "restore"): "active",
    ("retracted", "delete"): "soft_deleted",
    ("retracted", "restore"): "active",
    ("expired", "delete"): "soft_deleted",
    ("expired", "restore"): "active",
    ("soft_deleted", "restore"): "active",
}
"""The state behind each action that a state allows; every other pair is refused."""


def memory_of(**fields: object) -> Memory:
    values: dict[str, object] = {
        "id": UUID(int=1),
        "user_id": "maya",
        "category": "personal",
        "text": "Maya lives in Porto.",
        "type": MemoryType.semantic,
        "importance": 2,
        "pinned": False,
        "tags": (),
        "state": MemoryState.soft_deleted,
        "version": 1,
        "created_at": EARLIER,
        "updated_at": EARLIER,
    }
    return Memory(**(values | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("action", Transition)
@pytest.mark.parametrize("state", MemoryState)
def test_each_action_begins_in_its_states_and_leads_to_one(state: MemoryState, action: Transition) -> None:
    target = LEADS.get((state.value, action.value))
    assert (state.value in source_states(action)) == (target is not None)
    if target is None:
        with pytest.raises(WrongState, match=state.value):
            require_source(action, state)
    else:
        require_source(action, state)
        assert TARGETS[action] == target


def test_each_action_sets_its_own_state() -> None:
    fields = {
        Transition.supersede: superseding_fields(NOW, successor=NEXT, ends_at=NOW),
        Transition.retract: retracting_fields(NOW),
        Transition.expire: expiring_fields(NOW),
        Transition.delete: deleting_fields(NOW, LATER),
        Transition.restore: restoring_fields(memory_of(), NOW, None),
    }
    assert {action: values["state"] for action, values in fields.items()} == TARGETS
    assert all(values["updated_at"] == NOW for values in fields.values())


@pytest.mark.parametrize(
    ("valid_from", "valid_to", "ends_at"),
    [(None, None, NOW), (EARLIER, None, NOW), (None, LATER, NOW), (EARLIER, LATER, NOW)],
)
def test_a_supersession_ends_the_span_where_the_later_statement_begins(
    valid_from: datetime | None, valid_to: datetime | None, ends_at: datetime
) -> None:
    fields = superseding_fields(NOW, successor=NEXT, ends_at=ends_at, valid_from=valid_from, valid_to=valid_to)
    assert (fields["superseded_by"], fields["valid_to"]) == (NEXT, NOW)


@pytest.mark.parametrize(("valid_from", "valid_to"), [(None, EARLIER), (NOW, None), (LATER, None), (None, NOW)])
def test_a_supersession_leaves_an_earlier_end_and_a_span_that_begins_later(
    valid_from: datetime | None, valid_to: datetime | None
) -> None:
    fields = superseding_fields(NOW, successor=None, ends_at=NOW, valid_from=valid_from, valid_to=valid_to)
    assert "valid_to" not in fields


@pytest.mark.parametrize("expires_at", [EARLIER, NOW])
def test_a_restored_memory_loses_a_past_expiry(expires_at: datetime) -> None:
    fields = restoring_fields(memory_of(expires_at=expires_at), NOW, LATER)
    assert (fields["expires_at"], fields["valid_to"]) == (None, LATER)
    assert (fields["superseded_by"], fields["purge_at"]) == (None, None)


@pytest.mark.parametrize(
    ("fields", "answered"),
    [
        ({}, True),
        ({"expires_at": LATER}, True),
        ({"expires_at": NOW}, False),
        ({"expires_at": EARLIER}, False),
        ({"state": MemoryState.expired}, False),
        ({"state": MemoryState.superseded}, False),
    ],
)
def test_an_active_memory_is_answered_until_it_expires(fields: dict[str, object], answered: bool) -> None:
    assert memory_of(**({"state": MemoryState.active} | fields)).is_answered(NOW) is answered


@pytest.mark.parametrize("expires_at", [LATER, None])
def test_a_restored_memory_keeps_an_expiry_to_come(expires_at: datetime | None) -> None:
    assert "expires_at" not in restoring_fields(memory_of(expires_at=expires_at), NOW, None)
