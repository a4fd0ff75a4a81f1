"""Receipts of answers, and usage: results and calls, with the field names of the HTTP API."""

from datetime import date, datetime
from typing import Literal
from uuid import UUID

from mnema_wire.bases import Page

from mnema_client.answered import Answered
from mnema_client.calls import model_reader, path_id, query_params
from mnema_client.requests import Moment
from mnema_client.transport import Call


class QueryReceipt(Answered):
    """The receipt of an answer. `query_id` is that of the answer; `memories`: how many memories and facts it told.

    `via`: query or chat. `agent` is None in chat. `header_from`, `header_to`: the revisions that the header is about.
    `relevance`: the best of all candidates.
    """

    query_id: UUID
    ts: datetime
    via: str
    agent: str | None = None
    key_id: UUID | None = None
    user_id: str | None = None
    thread_id: str | None = None
    header_from: int | None = None
    header_to: int | None = None
    tokens: int | None = None
    relevance: float | None = None
    degraded: str | None = None
    memories: int


class ToldItem(Answered):
    """A memory or a fact that an answer told. `part`: header, fact, item or related.

    `text` is that of `version`, None if the memory is purged. `version_now` and `state_now` are the memory's now.
    """

    part: str
    memory_id: UUID
    category: str
    version: int | None = None
    relevance: float | None = None
    text: str | None = None
    version_now: int | None = None
    state_now: str | None = None


class ToldQuery(QueryReceipt):
    """A receipt with the header and the texts as they were then."""

    header: str
    items: list[ToldItem]


class MemoryUse(Answered):
    """An answer that told a memory, with the memory's `part`, `version` and `relevance` in it."""

    query_id: UUID
    ts: datetime
    via: str
    agent: str | None = None
    key_id: UUID | None = None
    user_id: str | None = None
    thread_id: str | None = None
    part: str
    version: int | None = None
    relevance: float | None = None


class Usage(Answered):
    """The usage of a `day` (UTC) or of a user. `user_id` is None for what belongs to no user.

    `tokens`: of the answers; `writes`: memories and facts that were stored, changed or deleted; `model_tokens`: of the
    chat model, None where users are told apart.
    """

    day: date | None = None
    user_id: str | None = None
    queries: int
    tokens: int
    writes: int
    model_tokens: int | None = None


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
