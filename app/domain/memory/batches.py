"""Edits and deletions of many memories at once: what a batch does to each memory, and why it leaves one as it is."""

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from mnema_wire.limits import MAX_JSON_BYTES

from app.domain.errors import InvalidInput, MnemaError
from app.domain.memory.memory import MemoryState, MemoryType
from app.domain.memory.transitions import deleting_fields

MAX_TAGS: Final = 50


class BatchTooLarge(InvalidInput):
    """More memories match than one batch may change; narrow the filters. `extra` has their number as `matched`."""


class UnexpectedCount(MnemaError, status=409):
    """Another number of memories matches than `expected` says. `extra` has it as `matched`."""


class BatchAction(StrEnum):
    """The kinds of batches."""

    edit = "edit"
    delete = "delete"
    undo = "undo"


class SkipReason(StrEnum):
    """The reasons why a batch leaves a memory as it is."""

    unchanged = "unchanged"
    chunk = "chunk"
    fact_memory = "fact_memory"
    procedural = "procedural"
    duplicate_text = "duplicate_text"
    too_many_tags = "too_many_tags"
    metadata_too_large = "metadata_too_large"
    changed = "changed"
    undone = "undone"
    unknown_category = "unknown_category"


@dataclass(frozen=True, slots=True)
class BatchEdit:
    """The changes that a batch makes to each memory. None and empty change nothing.

    `metadata` is merged key by key; a key with None is removed.
    """

    category: str | None = None
    importance: int | None = None
    pinned: bool | None = None
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if both := sorted(set(self.add_tags) & set(self.remove_tags)):
            raise InvalidInput(f"set.add_tags and set.remove_tags both name: {', '.join(both)}")

    @property
    def is_empty(self) -> bool:
        """True if it changes nothing."""
        return self == BatchEdit()


@dataclass(frozen=True, slots=True)
class BatchMemory:
    """The part of a stored memory that a batch reads.

    `metadata` is None if the batch does not need it. `placed`: it is a chunk of a file or turn. `tells_facts`: it
    states facts, and changes only with them. `twin`: another active memory has its text in the category to which it
    would move.
    """

    id: UUID
    user_id: str
    thread_id: str | None
    category: str
    type: MemoryType
    text_hash: bytes
    importance: int
    pinned: bool
    tags: tuple[str, ...]
    version: int
    characters: int
    metadata: Mapping[str, Any] | None = None
    placed: bool = False
    tells_facts: bool = False
    twin: bool = False


@dataclass(frozen=True, slots=True)
class ChangedMemory:
    """A memory that a batch has changed: its values before and after, and what it is now.

    `twin`: another active memory has its former text and category.
    `undone`: an earlier undo of the batch has put it back.
    """

    id: UUID
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    user_id: str
    thread_id: str | None
    type: MemoryType
    category: str
    version: int
    characters: int
    twin: bool
    undone: bool


UNDONE_FIELDS: Final = ("category", "importance", "pinned", "tags", "metadata", "state")
"""The fields that an undo puts back."""


def plan_edit(memory: BatchMemory, edit: BatchEdit) -> dict[str, Any] | SkipReason:
    """Return the fields that the edit changes, with their new values, or the reason why it changes none."""
    if reason := _kept_reason(memory):
        return reason
    fields: dict[str, Any] = {}
    if edit.category not in (None, memory.category):
        if memory.type is MemoryType.procedural:
            return SkipReason.procedural
        if memory.twin:
            return SkipReason.duplicate_text
        fields["category"] = edit.category
    for name in ("importance", "pinned"):
        if getattr(edit, name) not in (None, getattr(memory, name)):
            fields[name] = getattr(edit, name)
    tags = _changed_tags(memory.tags, edit)
    if tags != memory.tags:
        if len(tags) > MAX_TAGS and len(tags) > len(memory.tags):
            return SkipReason.too_many_tags
        fields["tags"] = tags
    metadata = _merged_metadata(memory.metadata or {}, edit.metadata)
    if edit.metadata and metadata != memory.metadata:
        if len(json.dumps(metadata, ensure_ascii=False).encode()) > MAX_JSON_BYTES:
            return SkipReason.metadata_too_large
        fields["metadata"] = metadata
    return fields or SkipReason.unchanged


def plan_delete(memory: BatchMemory, now: datetime, purge_at: datetime) -> dict[str, Any] | SkipReason:
    """Return the fields of a soft-deleted memory, or the reason why it stays."""
    return _kept_reason(memory) or deleting_fields(now, purge_at)


def _kept_reason(memory: BatchMemory) -> SkipReason | None:
    """Return the reason why no batch changes this memory, None if one may."""
    if memory.placed:
        return SkipReason.chunk
    return SkipReason.fact_memory if memory.tells_facts else None


def plan_undo(
    memory: ChangedMemory, now: datetime, purge_at: datetime, categories: Container[str]
) -> dict[str, Any] | SkipReason:
    """Return the fields that put the memory back, or the reason why it stays as it is.

    `categories`: those that the tenant has now.
    """
    if memory.undone:
        return SkipReason.undone
    if memory.version != memory.after["version"]:
        return SkipReason.changed
    if memory.before["category"] != memory.after["category"] and memory.before["category"] not in categories:
        return SkipReason.unknown_category
    if memory.twin:
        return SkipReason.duplicate_text
    fields = {name: memory.before[name] for name in UNDONE_FIELDS if memory.before[name] != memory.after[name]}
    if fields.get("state") == MemoryState.soft_deleted:
        return fields | deleting_fields(now, purge_at)
    if "state" in fields:
        fields["purge_at"] = None
    return fields | {"updated_at": now}


def _changed_tags(tags: tuple[str, ...], edit: BatchEdit) -> tuple[str, ...]:
    removed = set(edit.remove_tags)
    return tuple(dict.fromkeys([*(tag for tag in tags if tag not in removed), *edit.add_tags]))


def _merged_metadata(metadata: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    removed = {name for name, value in changes.items() if value is None}
    return {name: value for name, value in (dict(metadata) | dict(changes)).items() if name not in removed}
