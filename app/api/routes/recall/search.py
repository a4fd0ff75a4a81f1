"""Route of /search: memories with citations."""

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter
from mnema_wire import recall as wire

from app.api import links
from app.api.deps import App, Reader
from app.api.errors import body_errors
from app.api.schemas.recall.query import round_relevance
from app.api.transport.parameters import StrictRoute
from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.memory.memory import Memory, MemoryType
from app.domain.memory.moments import Moments
from app.domain.where.parsing import parse_where
from app.usecases.recall.search import SearchAnswer, SearchQuery, SearchResult

router = APIRouter(prefix="/search", tags=["memory"], route_class=StrictRoute)
_APART: Final = frozenset({MemoryType.turn, MemoryType.chunk})
_TYPES: Final[dict[str, frozenset[MemoryType]]] = {
    "turn": frozenset({MemoryType.turn}),
    "chunk": frozenset({MemoryType.chunk}),
    "memory": frozenset(MemoryType) - _APART - {MemoryType.procedural},
}


def to_search(body: wire.SearchRequest) -> SearchQuery:
    """Return the query that the use-case takes. Raise InvalidInput if two names of a field disagree.

    Raise it also for a wrong `where`.
    """
    return SearchQuery(
        query=body.query,
        filters=Filters(user_id=body.user_id, where=parse_where(body.where)),
        thread_id=_one_of(body, "thread_id", "chat_id"),
        types=frozenset().union(*(_TYPES[kind] for kind in body.types or ())),
        top_k=_one_of(body, "top_k", "limit"),
        budget_tokens=body.budget_tokens,
        min_relevance=body.min_relevance,
        exclude_ids=tuple(body.exclude_ids or ()),
        snippet=body.snippet,
        neighbours=body.neighbours or 0,
        zone=ZoneInfo(body.timezone),
        moments=Moments(body.as_of, body.valid_at),
    )


def _one_of(body: wire.SearchRequest, name: str, other: str) -> Any:
    value = getattr(body, name)
    same = getattr(body, other)
    if value is not None and same is not None and value != same:
        raise InvalidInput(f"{name} and {other} are names of one field and differ; send one of them")
    return same if value is None else value


def citation_body(memory: Memory, place: Mapping[str, Any] | None = None) -> wire.Citation:
    """Return the source that a memory is. `place` is that of a chunk of a document or a turn."""
    named = (memory.source or {}).get("turn_id")
    itself = str(memory.id) if memory.type is MemoryType.turn else None
    return wire.Citation(
        memory_id=memory.id,
        user_id=memory.user_id,
        thread_id=memory.thread_id,
        chat_id=memory.thread_id,
        seq=memory.seq,
        role=memory.role,
        actor_id=memory.actor_id,
        message_id=itself if named is None else named,
        created_at=memory.created_at,
        **(place or (_chunk_place(memory.metadata) if memory.type is MemoryType.chunk else {})),
    )


def search_body(answer: SearchAnswer) -> wire.SearchAnswer:
    """Return the body for the use-case's answer."""
    results = [_found_out(result) for result in answer.results]
    return wire.SearchAnswer(
        results=results,
        text=answer.text,
        citations={result.mark: result.source for result in results},
        tokens=answer.tokens,
        took_ms=answer.took_ms,
        degraded=answer.degraded,
    )


def _chunk_place(metadata: Any) -> dict[str, Any]:
    """Return path and positions of a chunk. The caller wrote the metadata: values of another type are left out."""
    kinds: dict[str, type] = {"path": str, "start": int, "end": int}
    return {name: metadata[name] for name, kind in kinds.items() if type(metadata.get(name)) is kind}


def _found_out(result: SearchResult) -> wire.SearchResult:
    memory = result.memory
    scored = result.ranked.scored
    return wire.SearchResult(
        mark=result.mark,
        id=memory.id,
        type=memory.type.value,
        text=result.text,
        score=scored.total,
        relevance=round_relevance(scored.relevance),
        also=list(result.ranked.also) or None,
        source=citation_body(memory, result.place),
    )


@router.post("", responses={200: {"links": links.FOUND}, **body_errors(404)})
async def search(app: App, principal: Reader, body: wire.SearchRequest) -> wire.SearchAnswer:
    """Find turns, memories and chunks across threads, as numbered lines with the source of each number.

    The search is for no agent. It covers the categories that the key may see, except procedural.
    """
    query = to_search(body)
    if body.project_id is not None:
        await app.tenancy.tenants.require_project(principal, body.project_id)
    return search_body(await app.recall.search.search_memories(principal, query))
