"""The effect of a batch on one memory: edits are idempotent, and an undo puts every field back."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mnema_wire.limits import MAX_JSON_BYTES

from app.domain.errors import InvalidInput
from app.domain.memory.batches import (
    MAX_TAGS,
    UNDONE_FIELDS,
    BatchEdit,
    BatchMemory,
    ChangedMemory,
    SkipReason,
    plan_delete,
    plan_edit,
    plan_undo,
)
from app.domain.memory.memory import MemoryState, MemoryType

NOW, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
KNOWN = ("tasks", "goals")
names = st.sampled_from(["a", "b", "c", "d", "é", "tag six"])
values = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.booleans(), max_size=2)
memories = st.builds(
    BatchMemory,
    id=st.just(uuid4()),
    user_id=st.just("maya"),
    thread_id=st.none(),
    category=st.sampled_from(["tasks", "goals"]),
    type=st.sampled_from([MemoryType.semantic, MemoryType.turn, MemoryType.episodic]),
    text_hash=st.just(b"h"),
    importance=st.integers(1, 5),
    pinned=st.booleans(),
    tags=st.lists(names, unique=True).map(tuple),
    version=st.just(3),
    characters=st.just(10),
    metadata=st.dictionaries(names, values, max_size=4),
)
edits = st.builds(
    lambda add, remove, **fields: BatchEdit(add_tags=tuple(add), remove_tags=tuple(set(remove) - set(add)), **fields),
    add=st.lists(names, unique=True, max_size=3),
    remove=st.lists(names, unique=True, max_size=3),
    category=st.none() | st.sampled_from(["tasks", "goals"]),
    importance=st.none() | st.integers(1, 5),
    pinned=st.none() | st.booleans(),
    metadata=st.dictionaries(names, values, max_size=3),
)


def changed_by(before: BatchMemory, fields: dict[str, Any]) -> ChangedMemory:
    """Return the memory as an undo finds it if nobody changed it since."""
    images = [
        {name: asdict(memory).get(name, "active") for name in UNDONE_FIELDS}
        for memory in (before, replace(before, **{n: v for n, v in fields.items() if n in UNDONE_FIELDS[:-1]}))
    ]
    images[1] |= {name: value for name, value in fields.items() if name == "state"}
    place = {"user_id": "maya", "thread_id": None, "type": before.type, "category": "tasks"}
    return ChangedMemory(
        before.id,
        images[0] | {"version": 3},
        images[1] | {"version": 4},
        **place,
        version=4,
        characters=10,
        twin=False,
        undone=False,
    )


@given(memories, edits)
def test_an_edit_leaves_nothing_to_edit_and_an_undo_puts_it_back(memory: BatchMemory, edit: BatchEdit) -> None:
    fields = plan_edit(memory, edit)
    if fields is SkipReason.unchanged:
        return
    assert isinstance(fields, dict)
    after = replace(memory, **fields)
    assert plan_edit(after, edit) is SkipReason.unchanged
    assert set(edit.add_tags) <= set(after.tags)
    assert not set(edit.remove_tags) & set(after.tags)
    assert after.metadata is not None
    kept = {name: value for name, value in (memory.metadata or {}).items() if name not in edit.metadata}
    assert after.metadata == kept | {name: value for name, value in edit.metadata.items() if value is not None}
    undone = plan_undo(changed_by(memory, fields), NOW, LATER, KNOWN)
    assert isinstance(undone, dict)
    assert undone.pop("updated_at") == NOW
    assert replace(after, **{name: tuple(v) if name == "tags" else v for name, v in undone.items()}) == memory


def test_a_deletion_and_its_undo_and_the_undo_of_that() -> None:
    memory = _memory()
    fields = plan_delete(memory, NOW, LATER)
    assert fields == {"state": "soft_deleted", "purge_at": LATER, "updated_at": NOW}
    deleted = changed_by(memory, fields)
    assert plan_undo(deleted, NOW, LATER, KNOWN) == {"state": "active", "purge_at": None, "updated_at": NOW}
    restored = replace(deleted, before=deleted.after, after=deleted.before | {"version": 4})
    assert plan_undo(restored, NOW, LATER, KNOWN) == {
        "state": MemoryState.soft_deleted,
        "purge_at": LATER,
        "updated_at": NOW,
    }


def _memory(**fields: Any) -> BatchMemory:
    plain: dict[str, Any] = {
        "id": uuid4(),
        "user_id": "maya",
        "thread_id": None,
        "category": "tasks",
        "type": MemoryType.semantic,
        "text_hash": b"h",
        "importance": 2,
        "pinned": False,
        "tags": (),
        "version": 3,
        "characters": 10,
        "metadata": {},
    }
    return BatchMemory(**plain | fields)


@pytest.mark.parametrize(
    ("memory", "edit", "reason"),
    [
        (_memory(placed=True), BatchEdit(importance=5), SkipReason.chunk),
        (_memory(type=MemoryType.procedural), BatchEdit(category="goals"), SkipReason.procedural),
        (_memory(twin=True), BatchEdit(category="goals"), SkipReason.duplicate_text),
        (_memory(twin=True, category="goals"), BatchEdit(category="goals"), SkipReason.unchanged),
        (_memory(tags=tuple(map(str, range(MAX_TAGS)))), BatchEdit(add_tags=("x",)), SkipReason.too_many_tags),
        (
            _memory(metadata={"a": "x" * (MAX_JSON_BYTES - 20)}),
            BatchEdit(metadata={"b": "y" * 20}),
            SkipReason.metadata_too_large,
        ),
    ],
)
def test_a_memory_that_cannot_be_changed_stays(memory: BatchMemory, edit: BatchEdit, reason: SkipReason) -> None:
    assert plan_edit(memory, edit) is reason


def test_the_largest_metadata_and_the_most_tags_fit() -> None:
    fits = {"a": "x" * (MAX_JSON_BYTES - len(json.dumps({"a": ""})))}
    assert plan_edit(_memory(), BatchEdit(metadata=fits)) == {"metadata": fits}
    tags = tuple(map(str, range(MAX_TAGS)))
    assert plan_edit(_memory(tags=tags[1:]), BatchEdit(add_tags=tags[:1])) == {"tags": (*tags[1:], tags[0])}
    many = tuple(map(str, range(MAX_TAGS + 5)))
    swap = BatchEdit(add_tags=("x",), remove_tags=("1",))
    assert plan_edit(_memory(tags=many), swap) == {"tags": (many[0], *many[2:], "x")}, "an old excess may stay"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"version": 5}, SkipReason.changed),
        ({"undone": True}, SkipReason.undone),
        ({"undone": True, "version": 5}, SkipReason.undone),
        ({"twin": True}, SkipReason.duplicate_text),
    ],
)
def test_an_undo_leaves_what_is_not_as_the_batch_left_it(fields: dict[str, Any], reason: SkipReason) -> None:
    assert plan_undo(replace(changed_by(_memory(), {"importance": 5}), **fields), NOW, LATER, KNOWN) is reason


def test_an_undo_moves_nothing_into_a_category_that_is_gone() -> None:
    moved = changed_by(_memory(), {"category": "goals"})
    assert plan_undo(moved, NOW, LATER, ("goals",)) is SkipReason.unknown_category
    edited = changed_by(_memory(), {"importance": 5})
    assert isinstance(plan_undo(edited, NOW, LATER, ("goals",)), dict), "it stays where it is"


def test_a_tag_is_not_added_and_removed() -> None:
    with pytest.raises(InvalidInput, match="both name: a, b"):
        BatchEdit(add_tags=("b", "a", "c"), remove_tags=("a", "b"))
    assert BatchEdit().is_empty
    assert not BatchEdit(pinned=False).is_empty
