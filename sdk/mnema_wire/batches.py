"""Batches: one edit or deletion of all memories that match."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import BeforeValidator, ConfigDict, Field

from mnema_wire.bases import Answered, Page, Request, words
from mnema_wire.fields import Identifier, Importance, Json, MetadataPair, Moment, Tags, TypeName, Where, Whole, Words
from mnema_wire.memory import Memory
from mnema_wire.recall import RowFilters

LEFT_REASONS: Final = (
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
)


def _as_list(value: Any) -> Any:
    """Return a list of a single name, anything else unchanged."""
    return [value] if isinstance(value, str) else value


_Names = Annotated[list[Identifier], Field(min_length=1, max_length=50)]
_Types = Annotated[list[TypeName], Field(min_length=1, max_length=7)]
NameOrNames = Annotated[_Names, BeforeValidator(_as_list, json_schema_input_type=Identifier | _Names)]
TypeOrTypes = Annotated[_Types, BeforeValidator(_as_list, json_schema_input_type=TypeName | _Types)]


class BatchFilters(RowFilters):
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
    where: Where | None = None


class BatchChanges(Request):
    """The changes to each memory. Absent fields change nothing."""

    category: Identifier | None = None
    importance: Importance | None = None
    pinned: Annotated[bool, Field(strict=True)] | None = None
    add_tags: Tags = Field(default_factory=list)
    remove_tags: Tags = Field(default_factory=list)
    metadata: Json = Field(default_factory=dict, description="merged key by key; null removes a key")


class BatchRequest(Request):
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
    filters: BatchFilters
    action: Literal["edit", "delete"]
    changes: BatchChanges | None = Field(default=None, alias="set", description="needed to edit, refused to delete")
    dry_run: bool = Field(default=False, strict=True, description="change nothing and tell what would change")
    expected: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True), Whole] | None = Field(
        default=None, description="the number of memories that must match; with another number nothing changes"
    )


class LeftMemory(Answered):
    """A memory that the batch left as it is."""

    id: UUID
    reason: Annotated[str, words(*LEFT_REASONS)]


class BatchDone(Answered):
    """The result of a batch or of its undo."""

    batch_id: UUID | None = Field(description="null for a dry run, or if nothing changed")
    action: Annotated[str, words("edit", "delete", "undo")]
    undoes: UUID | None = Field(description="the batch that this one undoes")
    dry_run: bool
    matched: int
    changed: int = Field(description="for a dry run: the memories that would change")
    skipped: dict[str, int] = Field(description="the memories that stay as they are, by reason")
    left: list[LeftMemory] = Field(description="the first 100 of them")
    sample: list[Memory] = Field(description="the first 10 changed memories, as they are now")


class Batch(Answered):
    """A batch as it was recorded."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)
    batch_id: UUID = Field(validation_alias="id")
    action: Annotated[str, words("edit", "delete", "undo")]
    undoes: UUID | None = Field(description="the batch that this one undoes")
    undone_by: UUID | None = Field(description="the newest undo of this batch")
    user_id: str | None = Field(description="the only user of its memories; null if there were several")
    filters: dict[str, Any] = Field(
        description="the filters, without the text of `q`, `metadata` and `where`: `not_kept` names those that were set"
    )
    changes: dict[str, Any] = Field(
        alias="set", description="what it set; `not_kept` names what the erasure of a user took"
    )
    matched: int
    changed: int
    skipped: dict[str, int]
    actor: str
    created_at: datetime


class BatchPage(Page[Batch]):
    """A page of batches, newest first. Pass `next_cursor` as `cursor` for the next page."""
