"""Receipts of answers, and usage: results and calls, with the field names of the HTTP API."""

from datetime import date
from typing import Literal
from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.receipts import MemoryUse, QueryReceipt, ToldQuery, Usage

from mnema_client.calls import model_reader, path_id, query_params
from mnema_client.requests import Moment
from mnema_client.transport import Call


def query_page(
    *,
    user_id: str | None = None,
    thread_id: str | None = None,
    agent: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[QueryReceipt]]:
    """Return one page of receipts of answered queries, newest first. A receipt follows its answer in about a second."""
    params = query_params(
        user_id=user_id, thread_id=thread_id, agent=agent, since=since, until=until, limit=limit, cursor=cursor
    )
    return Call("GET", "/queries", model_reader(Page[QueryReceipt]), params)


def get_query(query_id: UUID | str) -> Call[ToldQuery]:
    """Return a receipt with the header and the texts as they were then. `query_id` is that of the answer."""
    return Call("GET", f"/queries/{path_id(query_id)}", model_reader(ToldQuery))


def memory_uses(memory_id: UUID | str, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[MemoryUse]]:
    """Return one page of the answers that told a memory, newest first."""
    params = query_params(limit=limit, cursor=cursor)
    return Call("GET", f"/memory/{path_id(memory_id)}/uses", model_reader(Page[MemoryUse]), params)


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
    params = query_params(by=by, user_id=user_id, since=since, until=until, limit=limit, cursor=cursor)
    return Call("GET", "/usage", model_reader(Page[Usage]), params)
