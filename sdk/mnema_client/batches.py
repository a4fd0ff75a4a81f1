"""Batches: edit or delete all memories that match filters, and undo it. The calls, their bodies and answers."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack
from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.recall import RowFilters
from pydantic import Field, field_serializer, field_validator

from mnema_client.answered import Answered
from mnema_client.calls import JSON, build_body, idempotency_headers, model_reader, path_id, query_params
from mnema_client.models import Memory
from mnema_client.requests import MemoryType, Moment, Sent, metadata_pairs
from mnema_client.transport import Call


class BatchFilters(RowFilters):
    """Filters of a batch, as those of `list`: it matches what the list shows. At least one is needed.

    All must match; only active memories do. `q`: words of the text: all of them, "a phrase", or, -without. `category`,
    `type`: one, or any of several. `metadata`: pairs that the memory has.
    """

    q: str | None = None
    category: str | Sequence[str] | None = None
    type: MemoryType | Sequence[MemoryType] | None = None
    thread_id: str | None = None
    tag: str | None = None
    metadata: Mapping[str, str | int | float | bool] | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None

    @field_validator("metadata")
    @classmethod
    def _check_pairs(cls, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if value is not None:
            metadata_pairs(value)
        return value

    @field_serializer("metadata")
    def _send_pairs(self, value: Mapping[str, Any] | None) -> list[str] | None:
        return None if value is None else metadata_pairs(value)


class BatchChanges(Sent):
    """Changes to each memory. `metadata` is merged key by key; None removes a key."""

    category: str | None = None
    importance: int | None = None
    pinned: bool | None = None
    add_tags: list[str] = Field(default_factory=list)
    remove_tags: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)


class BatchRequest(Sent):
    """A batch. `expected`: the number of memories that must match."""

    filters: BatchFilters
    action: Literal["edit", "delete"]
    changes: BatchChanges | None = Field(default=None, alias="set")
    dry_run: bool = False
    expected: int | None = None


class BatchChangeFields(TypedDict, total=False):
    """Keywords of `edit_matching` besides the filters; `BatchChanges` explains each."""

    category: str | None
    importance: int | None
    pinned: bool | None
    add_tags: Sequence[str] | None
    remove_tags: Sequence[str] | None
    metadata: Mapping[str, Any] | None


class LeftMemory(Answered):
    """A memory that a batch left as it is. `reason`: such as `unchanged`, `chunk`, `duplicate_text` or `changed`."""

    id: UUID
    reason: str


class BatchDone(Answered):
    """The result of a batch or of its undo. `batch_id` is None for a dry run, or if nothing changed.

    `skipped`: the memories that stay as they are, by reason; `left`: the first 100 of them. `sample`: the first 10
    changed memories, or those that would change, as they are now.
    """

    batch_id: UUID | None
    action: str
    undoes: UUID | None
    dry_run: bool
    matched: int
    changed: int
    skipped: dict[str, int]
    left: list[LeftMemory]
    sample: list[Memory]


class Batch(Answered):
    """A batch as it was recorded. `changes`: what it set. `user_id`: the only user of its memories, else None.

    `filters` has no text of `q` and `metadata`; `not_kept` in it names those of both that were set.
    The erasure of a user takes words about the user from both, and adds their names to `not_kept`.
    """

    batch_id: UUID
    action: str
    undoes: UUID | None
    undone_by: UUID | None
    user_id: str | None
    filters: dict[str, Any]
    changes: dict[str, Any] = Field(default_factory=dict, alias="set")
    matched: int
    changed: int
    skipped: dict[str, int]
    actor: str
    created_at: datetime


def edit_matching(
    filters: BatchFilters | Mapping[str, Any],
    *,
    dry_run: bool = False,
    expected: int | None = None,
    idempotency_key: str | None = None,
    **fields: Unpack[BatchChangeFields],
) -> Call[BatchDone]:
    """Edit all active memories that match the filters, in one transaction; `BatchChanges` explains each field.

    `dry_run`: change nothing and tell what would change. `expected`: raise Conflict if another number matches. Undo it
    with `undo_batch`.
    """
    changes = build_body(BatchChanges, **fields)
    return _batch_call(filters, "edit", changes, dry_run, expected, idempotency_key)


def delete_matching(
    filters: BatchFilters | Mapping[str, Any],
    *,
    dry_run: bool = False,
    expected: int | None = None,
    idempotency_key: str | None = None,
) -> Call[BatchDone]:
    """Soft-delete all active memories that match the filters, in one transaction, as `edit_matching` edits them."""
    return _batch_call(filters, "delete", None, dry_run, expected, idempotency_key)


def undo_batch(batch_id: UUID | str, *, idempotency_key: str | None = None) -> Call[BatchDone]:
    """Put back what a batch has changed, in each memory that nobody changed since. It can be undone itself."""
    headers = idempotency_headers(idempotency_key)
    return Call("POST", f"{_batch_path(batch_id)}/undo", model_reader(BatchDone), headers=headers)


def batch_page(*, limit: int | None = None, cursor: str | None = None) -> Call[Page[Batch]]:
    """Return one page of batches, newest first. `limit`: batches a page, 1 to 200."""
    return Call("GET", "/memory/batches", model_reader(Page[Batch]), query_params(limit=limit, cursor=cursor))


def get_batch(batch_id: UUID | str) -> Call[Batch]:
    """Return one batch."""
    return Call("GET", _batch_path(batch_id), model_reader(Batch))


def _batch_path(batch_id: UUID | str) -> str:
    return f"/memory/batches/{path_id(batch_id)}"


def _batch_call(
    filters: BatchFilters | Mapping[str, Any],
    action: Literal["edit", "delete"],
    changes: BatchChanges | None,
    dry_run: bool,
    expected: int | None,
    idempotency_key: str | None,
) -> Call[BatchDone]:
    body = build_body(
        BatchRequest, filters=filters, action=action, changes=changes, dry_run=dry_run or None, expected=expected
    )
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", "/memory/batches", model_reader(BatchDone), content=body.body(), headers=headers)
