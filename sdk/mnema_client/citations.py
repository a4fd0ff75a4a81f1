"""Search with citations, and the replay of a thread: requests, results and calls."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack
from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.recall import SearchAnswer, SearchedType, SearchRequest, ThreadTurn

from mnema_client.calls import JSON, get_call, json_body, model_reader, path_segment
from mnema_client.requests import Moment
from mnema_client.transport import Call


class SearchFields(TypedDict, total=False):
    """Keywords of `search` besides the query; `SearchRequest` explains each."""

    user_id: str | None
    where: Mapping[str, Any] | None
    thread_id: str | None
    top_k: int | None
    types: Sequence[SearchedType] | None
    budget_tokens: int | None
    min_relevance: float | None
    exclude_ids: Sequence[UUID | str] | None
    snippet: int | None
    neighbours: int | None
    as_of: Moment | None
    valid_at: Moment | None
    timezone: str | None
    project_id: str | None
    chat_id: str | None
    limit: int | None


def search(query: str, **fields: Unpack[SearchFields]) -> Call[SearchAnswer]:
    """Find turns, memories and chunks across threads, as numbered lines with their sources.

    `SearchRequest` explains each field. The search is for no agent: it covers what the key may see.
    """
    content = json_body(SearchRequest, query=query, **fields)
    return Call("POST", "/search", model_reader(SearchAnswer), content=content, headers=JSON)


def thread_turns(
    thread_id: str, *, user_id: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[ThreadTurn]]:
    """Return one page of a thread's turns, oldest first: in the order of `seq`, then those without one by time.

    `user_id`: only this user's turns. `limit`: turns a page, 1 to 200.
    """
    path = f"/threads/{path_segment(thread_id)}/turns"
    return get_call(path, Page[ThreadTurn], user_id=user_id, limit=limit, cursor=cursor)
