"""Search with citations, and the replay of a thread: requests, results and calls."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack
from uuid import UUID

from mnema_client.answered import Answered
from mnema_client.calls import JSON, build_body, model_reader, path_segment, query_params
from mnema_client.models import Page
from mnema_client.requests import Sent
from mnema_client.transport import Call

SearchedType = Literal["turn", "memory", "chunk"]


class SearchRequest(Sent):
    """A search with citations.

    `user_id`: by default all users of the tenant; `thread_id` breaks near ties and never filters; `types`: turn, memory
    (every other type but procedural) and chunk, by default all; `top_k`: 1 to 50; `budget_tokens`: of the lines, 1 to
    8192, by default no limit; `snippet`: a longer text is cut, 20 to 32,000 characters; `min_relevance`, `exclude_ids`,
    `neighbours` and `timezone` as in a `Question`. `project_id` (the tenant's id or name), `chat_id` (the thread) and
    `limit` (`top_k`) are other names that the server knows.
    """

    query: str
    user_id: str | None = None
    thread_id: str | None = None
    top_k: int | None = None
    types: list[SearchedType] | None = None
    budget_tokens: int | None = None
    min_relevance: float | None = None
    exclude_ids: list[UUID] | None = None
    snippet: int | None = None
    neighbours: int | None = None
    timezone: str = "UTC"
    project_id: str | None = None
    chat_id: str | None = None
    limit: int | None = None


class SearchFields(TypedDict, total=False):
    """Keywords of `search` besides the query; `SearchRequest` explains each."""

    user_id: str | None
    thread_id: str | None
    top_k: int | None
    types: Sequence[SearchedType] | None
    budget_tokens: int | None
    min_relevance: float | None
    exclude_ids: Sequence[UUID | str] | None
    snippet: int | None
    neighbours: int | None
    timezone: str | None
    project_id: str | None
    chat_id: str | None
    limit: int | None


class Citation(Answered):
    """The source of a mark. The fields after `created_at`: the place of a chunk in its file or turn, if it is known.

    `message_id`: the turn that the memory names as its source, or the turn itself. `chat_id` equals `thread_id`.
    """

    memory_id: UUID
    user_id: str
    thread_id: str | None
    chat_id: str | None
    seq: int | None
    role: str | None
    actor_id: str | None
    message_id: str | None
    created_at: datetime
    source_id: UUID | None = None
    file_id: UUID | None = None
    turn_id: UUID | None = None
    path: str | None = None
    page: int | None = None
    heading: str | None = None
    start: int | None = None
    end: int | None = None


class SearchResult(Answered):
    """One result of a search. `text` is the stored text, cut if it is longer than the snippet."""

    mark: str
    id: UUID
    type: str
    text: str
    score: float
    relevance: float | None = None
    also: list[UUID] | None = None
    source: Citation


class SearchAnswer(Answered):
    """The answer to a search. `text`: a line `[M1] …` for each result; `citations`: the source of each mark.

    `tokens`: of the lines, only with `budget_tokens`. `degraded`: the part that was not available.
    """

    results: list[SearchResult]
    text: str
    citations: dict[str, Citation]
    tokens: int | None = None
    took_ms: float
    degraded: str | None = None


class ThreadTurn(Answered):
    """A turn of a thread, as it was said."""

    id: UUID
    user_id: str
    role: str | None
    content: str
    actor_id: str | None
    seq: int | None
    metadata: dict[str, Any]
    created_at: datetime


def search(query: str, **fields: Unpack[SearchFields]) -> Call[SearchAnswer]:
    """Find turns, memories and chunks across threads, as numbered lines with their sources.

    `SearchRequest` explains each field. The search is for no agent: it covers what the key may see.
    """
    body = build_body(SearchRequest, query=query, **fields)
    return Call("POST", "/search", model_reader(SearchAnswer), content=body.body(), headers=JSON)


def thread_turns(
    thread_id: str, *, user_id: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[ThreadTurn]]:
    """Return one page of a thread's turns, oldest first: in the order of `seq`, then those without one by time.

    `user_id`: only this user's turns. `limit`: turns a page, 1 to 200.
    """
    params = query_params(user_id=user_id, limit=limit, cursor=cursor)
    path = f"/threads/{path_segment(thread_id)}/turns"
    return Call("GET", path, model_reader(Page[ThreadTurn]), params)
