"""Bodies of /memory/batches."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from mnema_wire.bases import Request
from mnema_wire.fields import Identifier, Importance, Json, MetadataPair, Moment, Tags, TypeName, Whole, Words
from mnema_wire.recall import RowFilters
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.api.schemas.memory.memories import MemoryOut
from app.domain.filters import Filters
from app.domain.memory.batches import BatchEdit
from app.domain.memory.listing import MemoryListing, parse_metadata
from app.usecases.memory.batch_plans import MatchingBatch
from app.usecases.memory.batches import BatchResult

Action = Literal["edit", "delete", "undo"]
Reason = Literal[
    "unchanged",
    "chunk",
    "fact_memory",
    "procedural",
    "duplicate_text",
    "too_many_tags",
    "metadata_too_large",
    "changed",
    "undone",
    "unknown_category",
]


def _as_list(value: Any) -> Any:
    """Return a list of a single name, anything else unchanged."""
    return [value] if isinstance(value, str) else value


_Names = Annotated[list[Identifier], Field(min_length=1, max_length=50)]
_Types = Annotated[list[TypeName], Field(min_length=1, max_length=7)]
NameOrNames = Annotated[_Names, BeforeValidator(_as_list, json_schema_input_type=Identifier | _Names)]
TypeOrTypes = Annotated[_Types, BeforeValidator(_as_list, json_schema_input_type=TypeName | _Types)]


class BatchFiltersIn(RowFilters):
    """The filters of `GET /memory`, combined with AND: the batch matches what the list shows.

    Only active memories match. At least one filter is needed.
    """

    q: Words | None = Field(default=None, description='words of the text: all of them, "a phrase", or, -without')
    category: NameOrNames | None = Field(default=None, description="one, or any of several")
    type: TypeOrTypes | None = Field(default=None, description="one, or any of several")
    thread_id: Identifier | None = None
    tag: Identifier | None = None
    metadata: Annotated[list[MetadataPair], Field(min_length=1, max_length=10)] | None = Field(
        default=None, description="key:value; all of them"
    )
    created_after: Moment | None = Field(default=None, description="inclusive; a date without a time is midnight UTC")
    created_before: Moment | None = Field(default=None, description="exclusive; a date without a time is midnight UTC")

    def to_domain(self) -> MemoryListing:
        """Return the list that the batch matches. Raise InvalidInput for an empty range."""
        names = (*RowFilters.model_fields, "thread_id", "tag")
        return MemoryListing(
            filters=Filters(**{name: getattr(self, name) for name in names}),
            words=self.q,
            categories=tuple(self.category or ()),
            types=tuple(self.type or ()),
            metadata=tuple(map(parse_metadata, self.metadata or ())),
            created_after=self.created_after,
            created_before=self.created_before,
        )


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
    filters: dict[str, Any] = Field(
        description="the filters, without the text of `q` and `metadata`: `not_kept` names those of both that were set"
    )
    changes: dict[str, Any] = Field(
        serialization_alias="set", description="what it set; `not_kept` names what the erasure of a user took"
    )
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
