"""Batches: edit or delete all memories that match filters, and undo it. The calls, their bodies and answers."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack
from uuid import UUID

from mnema_wire import batches
from mnema_wire.bases import Page
from mnema_wire.batches import Batch, BatchChanges, BatchDone, BatchRequest
from pydantic import field_validator

from mnema_client.calls import JSON, build_body, get_call, idempotency_headers, json_body, model_reader, path_id
from mnema_client.requests import metadata_pairs
from mnema_client.transport import Call


class BatchFilters(batches.BatchFilters):
    """Filters of a batch, as those of `list`. `metadata` may be pairs or a mapping."""

    @field_validator("metadata", mode="before")
    @classmethod
    def _write_pairs(cls, value: Any) -> Any:
        return metadata_pairs(value) if isinstance(value, Mapping) else value


class BatchChangeFields(TypedDict, total=False):
    """Keywords of `edit_matching` besides the filters; `BatchChanges` explains each."""

    category: str | None
    importance: int | None
    pinned: bool | None
    add_tags: Sequence[str] | None
    remove_tags: Sequence[str] | None
    metadata: Mapping[str, Any] | None


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
    return get_call("/memory/batches", Page[Batch], limit=limit, cursor=cursor)


def get_batch(batch_id: UUID | str) -> Call[Batch]:
    """Return one batch."""
    return get_call(_batch_path(batch_id), Batch)


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
    given = filters if isinstance(filters, BatchFilters) else build_body(BatchFilters, **filters)
    content = json_body(
        BatchRequest, filters=given, action=action, changes=changes, dry_run=dry_run or None, expected=expected
    )
    headers = idempotency_headers(idempotency_key, JSON)
    return Call("POST", "/memory/batches", model_reader(BatchDone), content=content, headers=headers)
