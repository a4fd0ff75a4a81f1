"""Bodies of /memory/batches."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.fields import Identifier, Importance, Json, Request, Tags, TypeName, Whole
from app.api.schemas.memory.memories import MemoryOut
from app.api.schemas.recall.query import FiltersIn
from app.domain.memory.batches import BatchEdit
from app.usecases.memory.batch_plans import MatchingBatch
from app.usecases.memory.batches import BatchResult

Action = Literal["edit", "delete", "undo"]
Reason = Literal[
    "unchanged",
    "chunk",
    "procedural",
    "duplicate_text",
    "too_many_tags",
    "metadata_too_large",
    "changed",
    "undone",
    "unknown_category",
]


class BatchFiltersIn(FiltersIn):
    """The filters of a query, and thread, type and tag, combined with AND. Only active memories match.

    At least one filter is needed.
    """

    thread_id: Identifier | None = None
    type: TypeName | None = None
    tag: Identifier | None = None


class BatchSetIn(Request):
    """The changes to each memory. Absent fields change nothing."""

    category: Identifier | None = None
    importance: Importance | None = None
    pinned: Annotated[bool, Field(strict=True)] | None = None
    add_tags: Tags = Field(default_factory=list)
    remove_tags: Tags = Field(default_factory=list)
    metadata: Json = Field(default_factory=dict, description="merged key by key; null removes a key")

    def to_domain(self) -> BatchEdit:
        """Return the domain object. Raise InvalidInput for a tag that is both added and removed."""
        return BatchEdit(
            category=self.category,
            importance=self.importance,
            pinned=self.pinned,
            add_tags=tuple(dict.fromkeys(self.add_tags)),
            remove_tags=tuple(dict.fromkeys(self.remove_tags)),
            metadata=self.metadata,
        )


class MemoryBatchIn(Request):
    """An edit or a deletion of all memories that match."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "filters": {"user_id": "maya", "category": "tasks", "tag": "sprint-7"},
                    "action": "edit",
                    "set": {"importance": 1, "add_tags": ["done"]},
                    "dry_run": True,
                }
            ]
        },
    )
    filters: BatchFiltersIn
    action: Literal["edit", "delete"]
    changes: BatchSetIn | None = Field(default=None, alias="set", description="needed to edit, refused to delete")
    dry_run: bool = Field(default=False, strict=True, description="change nothing and tell what would change")
    expected: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True), Whole] | None = Field(
        default=None, description="the number of memories that must match; with another number nothing changes"
    )


class LeftOut(BaseModel):
    """A memory that the batch left as it is."""

    id: UUID
    reason: Reason


class MemoryBatchDoneOut(BaseModel):
    """The result of a batch or of its undo."""

    batch_id: UUID | None = Field(description="null for a dry run, or if nothing changed")
    action: Action
    undoes: UUID | None = Field(description="the batch that this one undoes")
    dry_run: bool
    matched: int
    changed: int = Field(description="for a dry run: the memories that would change")
    skipped: dict[str, int] = Field(description="the memories that stay as they are, by reason")
    left: list[LeftOut] = Field(description="the first 100 of them")
    sample: list[MemoryOut] = Field(description="the first 10 changed memories, as they are now")

    @classmethod
    def from_result(cls, result: BatchResult, *, dry_run: bool = False) -> "MemoryBatchDoneOut":
        """Return the body for a result."""
        return cls(
            batch_id=result.batch_id,
            action=result.action.value,
            undoes=result.undoes,
            dry_run=dry_run,
            matched=result.matched,
            changed=result.changed,
            skipped=dict(result.skipped),
            left=[LeftOut.model_validate({"id": memory_id, "reason": reason}) for memory_id, reason in result.left],
            sample=[MemoryOut.from_memory(memory) for memory in result.sample],
        )


class MemoryBatchOut(BaseModel):
    """A batch as it was recorded."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)
    batch_id: UUID = Field(validation_alias="id")
    action: Action
    undoes: UUID | None = Field(description="the batch that this one undoes")
    undone_by: UUID | None = Field(description="the newest undo of this batch")
    user_id: str | None = Field(description="the only user of its memories; null if there were several")
    filters: dict[str, Any]
    changes: dict[str, Any] = Field(serialization_alias="set")
    matched: int
    changed: int
    skipped: dict[str, int]
    actor: str
    created_at: datetime


class MemoryBatchPageOut(BaseModel):
    """A page of batches, newest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[MemoryBatchOut]
    next_cursor: str | None = None


def matching_batch(body: MemoryBatchIn) -> MatchingBatch:
    """Return the domain object of a body. Raise InvalidInput if `set` does not fit the action."""
    edit = (body.changes or BatchSetIn()).to_domain() if body.action == "edit" else None
    return MatchingBatch(body.filters.to_domain(), edit, body.expected)
