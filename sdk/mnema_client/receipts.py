"""Receipts of answers, and usage: results and calls, with the field names of the HTTP API."""

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal
from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.receipts import MemoryUse, QueryReceipt, ToldQuery, Usage

from mnema_client.calls import get_call, path_id, where_text
from mnema_client.requests import Moment
from mnema_client.transport import Call


def query_page(
    *,
    user_id: str | None = None,
    thread_id: str | None = None,
    agent: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    where: Mapping[str, Any] | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[QueryReceipt]]:
    """Return one page of receipts of answered queries, newest first. A receipt follows its answer in about a second."""
    return get_call(
        "/queries",
        Page[QueryReceipt],
        user_id=user_id,
        thread_id=thread_id,
        agent=agent,
        since=since,
        until=until,
        where=where_text(where),
        limit=limit,
        cursor=cursor,
    )


def get_query(query_id: UUID | str) -> Call[ToldQuery]:
    """Return a receipt with the header and the texts as they were then. `query_id` is that of the answer."""
    return get_call(f"/queries/{path_id(query_id)}", ToldQuery)


def memory_uses(memory_id: UUID | str, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[MemoryUse]]:
    """Return one page of the answers that told a memory, newest first."""
    return get_call(f"/memory/{path_id(memory_id)}/uses", Page[MemoryUse], limit=limit, cursor=cursor)


def usage(
    by: Literal["day", "user"] = "day",
    *,
    user_id: str | None = None,
    since: date | None = None,
    until: date | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[Usage]]:
    """Return one page of usage: days, newest first, or users. `until` is the day after the last. Needs scope admin.

    Without `since`, the last 31 days count.
    """
    return get_call("/usage", Page[Usage], by=by, user_id=user_id, since=since, until=until, limit=limit, cursor=cursor)
