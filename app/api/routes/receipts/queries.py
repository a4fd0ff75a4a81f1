"""Routes of what agents were told: /queries, and the uses of a memory."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from mnema_wire.fields import Identifier, Limit, Moment, WhereText
from mnema_wire.receipts import MemoryUses, QueryReceiptPage, ToldQuery

from app.api import links
from app.api.deps import App, Reader
from app.api.errors import key_errors
from app.api.schemas.receipts.receipts import memory_uses_body, receipt_page_body, told_query_body
from app.api.transport.parameters import StrictRoute
from app.domain.receipts.stored import WHERE_FIELDS, ReceiptFilter
from app.domain.where.parsing import read_where

router = APIRouter(tags=["receipts"], route_class=StrictRoute)
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")]


@router.get("/queries", responses={200: {"links": links.RECEIPTS}, **key_errors()})
async def page(
    app: App,
    principal: Reader,
    user_id: Annotated[Identifier | None, Query()] = None,
    thread_id: Annotated[Identifier | None, Query()] = None,
    agent: Annotated[Identifier | None, Query()] = None,
    since: Annotated[Moment | None, Query(description="only answers given then or later")] = None,
    until: Annotated[Moment | None, Query(description="only answers given earlier")] = None,
    where: Annotated[WhereText | None, Query()] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Cursor = None,
) -> QueryReceiptPage:
    """List the receipts of answered queries, newest first.

    A receipt is there about a second after its answer. A key bound to agents sees the receipts of its agents, and the
    receipts of its own chats. `where` is about the receipt's fields; name it again with a cursor.
    """
    filters = ReceiptFilter(user_id, thread_id, agent, since, until, read_where(where, WHERE_FIELDS))
    return receipt_page_body(await app.receipts.read.list_receipts(principal, filters, cursor, limit))


@router.get("/queries/{query_id:uuid}", responses={200: {"links": links.RECEIPT}, **key_errors(404)})
async def get(app: App, principal: Reader, query_id: UUID) -> ToldQuery:
    """Return a receipt with the memories that the answer told, their texts as they were, and the header.

    The answer to a query has the `query_id`. A key bound to agents sees the memories of its categories.
    """
    return told_query_body(await app.receipts.read.get_receipt(principal, query_id))


@router.get("/memory/{memory_id:uuid}/uses", responses={200: {"links": links.USES}, **key_errors(404)})
async def uses(
    app: App, principal: Reader, memory_id: UUID, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> MemoryUses:
    """List the answers that told a memory, newest first."""
    return memory_uses_body(await app.receipts.read.list_uses(principal, memory_id, cursor, limit))
