"""Routes of /memory/batches: edit or delete all memories that match, list batches and undo them."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from mnema_wire import batches as wire
from mnema_wire.fields import Limit
from mnema_wire.recall import RowFilters

from app.api import links
from app.api.deps import App, Reader, Writer
from app.api.errors import body_errors, key_errors
from app.api.schemas.memory.memories import memory_body
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.memory.batches import BatchEdit
from app.domain.memory.listing import MemoryListing, parse_metadata
from app.domain.where.parsing import parse_where
from app.usecases.memory.batch_plans import MatchingBatch
from app.usecases.memory.batches import BatchResult

router = APIRouter(prefix="/memory/batches", tags=["batches"], route_class=StrictRoute)
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")]


def _to_listing(body: wire.BatchFilters) -> MemoryListing:
    """Return the list that the batch matches. Raise InvalidInput for an empty range."""
    names = (*RowFilters.model_fields, "thread_id", "tag", "created_after", "created_before")
    where = parse_where(body.where, "filters.where")
    return MemoryListing(
        filters=Filters(**{name: getattr(body, name) for name in names}, where=where),
        words=body.q,
        categories=tuple(body.category or ()),
        types=tuple(body.type or ()),
        metadata=tuple(map(parse_metadata, body.metadata or ())),
    )


def _to_edit(body: wire.BatchChanges) -> BatchEdit:
    """Return the domain object. Raise InvalidInput for a tag that is both added and removed."""
    return BatchEdit(
        category=body.category,
        importance=body.importance,
        pinned=body.pinned,
        add_tags=tuple(dict.fromkeys(body.add_tags)),
        remove_tags=tuple(dict.fromkeys(body.remove_tags)),
        metadata=body.metadata,
    )


def batch_done_body(result: BatchResult, *, dry_run: bool = False) -> wire.BatchDone:
    """Return the body for a result."""
    return wire.BatchDone(
        batch_id=result.batch_id,
        action=result.action.value,
        undoes=result.undoes,
        dry_run=dry_run,
        matched=result.matched,
        changed=result.changed,
        skipped=dict(result.skipped),
        left=[wire.LeftMemory.model_validate({"id": memory_id, "reason": reason}) for memory_id, reason in result.left],
        sample=[memory_body(memory) for memory in result.sample],
    )


def matching_batch(body: wire.BatchRequest) -> MatchingBatch:
    """Return the domain object of a body. Raise InvalidInput if `set` does not fit the action."""
    edit = _to_edit(body.changes or wire.BatchChanges()) if body.action == "edit" else None
    return MatchingBatch(_to_listing(body.filters), edit, body.expected)


@router.post("", responses={200: {"links": links.BATCH_DONE}, **body_errors(409)})
async def change(
    app: App, principal: Writer, body: wire.BatchRequest, idempotency_key: IdempotencyHeader = None
) -> wire.BatchDone:
    """Edit or delete all active memories that match the filters, in one transaction. Undo it with its `batch_id`.

    Try it with `dry_run` first, then pass the answered `matched` as `expected`.
    """
    if body.action == "delete" and body.changes is not None:
        raise InvalidInput("a deletion takes no `set`")
    key = None if body.dry_run else retry_key("POST /memory/batches", idempotency_key, body)
    result = await app.memory.batches.change_matching(principal, matching_batch(body), dry_run=body.dry_run, key=key)
    return batch_done_body(result, dry_run=body.dry_run)


@router.get("", responses={200: {"links": links.BATCHES}, **key_errors()})
async def page(
    app: App, principal: Reader, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> wire.BatchPage:
    """List batches, newest first. A key bound to agents sees the batches whose categories it may all see."""
    batches = await app.memory.batches.list_batches(principal, cursor, limit)
    return wire.BatchPage(
        items=[wire.Batch.model_validate(batch) for batch in batches.items], next_cursor=batches.next_cursor
    )


@router.get("/{batch_id:uuid}", responses={200: {"links": links.BATCH}, **key_errors(404)})
async def get(app: App, principal: Reader, batch_id: UUID) -> wire.Batch:
    """Return one batch."""
    return wire.Batch.model_validate(await app.memory.batches.get_batch(principal, batch_id))


@router.post("/{batch_id:uuid}/undo", responses={200: {"links": links.BATCH_DONE}, **key_errors(404, 409)})
async def undo(
    app: App, principal: Writer, batch_id: UUID, idempotency_key: IdempotencyHeader = None
) -> wire.BatchDone:
    """Put back what a batch has changed, in each memory that nobody changed since.

    The undo is a batch of its own and can be undone. `left` names the memories that stay as they are.
    """
    key = retry_key("POST /memory/batches/undo", idempotency_key, batch_id)
    return batch_done_body(await app.memory.batches.undo_batch(principal, batch_id, key))
