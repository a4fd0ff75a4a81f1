"""Routes of /memory/batches: edit or delete all memories that match, list batches and undo them."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from mnema_wire.batches import Batch, BatchDone, BatchPage, BatchRequest
from mnema_wire.fields import Limit

from app.api import links
from app.api.deps import App, Reader, Writer
from app.api.errors import openapi_errors
from app.api.schemas.memory.batches import batch_done_body, matching_batch
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.domain.errors import InvalidInput

router = APIRouter(prefix="/memory/batches", tags=["batches"], route_class=StrictRoute)
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")]


@router.post(
    "",
    response_model=BatchDone,
    responses={200: {"links": links.BATCH_DONE}, **openapi_errors(400, 401, 403, 409, 413, 422, 503)},
)
async def change(
    app: App, principal: Writer, body: BatchRequest, idempotency_key: IdempotencyHeader = None
) -> BatchDone:
    """Edit or delete all active memories that match the filters, in one transaction. Undo it with its `batch_id`.

    Try it with `dry_run` first, then pass the answered `matched` as `expected`.
    """
    if body.action == "delete" and body.changes is not None:
        raise InvalidInput("a deletion takes no `set`")
    key = None if body.dry_run else retry_key("POST /memory/batches", idempotency_key, body)
    result = await app.memory.batches.change_matching(principal, matching_batch(body), dry_run=body.dry_run, key=key)
    return batch_done_body(result, dry_run=body.dry_run)


@router.get(
    "",
    response_model=BatchPage,
    responses={200: {"links": links.BATCHES}, **openapi_errors(401, 403, 422, 503)},
)
async def page(app: App, principal: Reader, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None) -> BatchPage:
    """List batches, newest first. A key bound to agents sees the batches whose categories it may all see."""
    batches = await app.memory.batches.list_batches(principal, cursor, limit)
    return BatchPage(items=[Batch.model_validate(batch) for batch in batches.items], next_cursor=batches.next_cursor)


@router.get(
    "/{batch_id:uuid}",
    response_model=Batch,
    responses={200: {"links": links.BATCH}, **openapi_errors(401, 403, 404, 422, 503)},
)
async def get(app: App, principal: Reader, batch_id: UUID) -> Batch:
    """Return one batch."""
    return Batch.model_validate(await app.memory.batches.get_batch(principal, batch_id))


@router.post(
    "/{batch_id:uuid}/undo",
    response_model=BatchDone,
    responses={200: {"links": links.BATCH_DONE}, **openapi_errors(401, 403, 404, 409, 422, 503)},
)
async def undo(app: App, principal: Writer, batch_id: UUID, idempotency_key: IdempotencyHeader = None) -> BatchDone:
    """Put back what a batch has changed, in each memory that nobody changed since.

    The undo is a batch of its own and can be undone. `left` names the memories that stay as they are.
    """
    key = retry_key("POST /memory/batches/undo", idempotency_key, batch_id)
    return batch_done_body(await app.memory.batches.undo_batch(principal, batch_id, key))
