"""Reading for mem0's clients: selections of memories, searches, entities and history."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from mnema_wire.limits import SHARED_USER

from app.api.mem0.identities import EntityType, split_stand_in
from app.api.mem0.schemas import Mem0ChangeOut, Mem0EntityOut, Mem0FoundOut, Mem0SearchIn
from app.bootstrap import Application
from app.domain.errors import NotFound
from app.domain.filters import Filters
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import Memory, MemoryType
from app.domain.paging import Page
from app.domain.principal import Principal
from app.usecases.recall.search import SearchQuery, SearchResult

T = TypeVar("T")
PAGE: Final = 200
MOST_READ: Final = 10_000
"""Memories that one list reads at most, and entities of each type."""
SNIPPET: Final = 32_000
TYPES: Final = frozenset(MemoryType) - {MemoryType.chunk, MemoryType.procedural}
"""The types that mem0's clients see. Chunks are parts of documents, procedures are for agents that ask for them."""
_EVENTS: Final = {"ADD": "ADD", "RESTORE": "ADD", "UPDATE": "UPDATE", "MERGE": "UPDATE"} | dict.fromkeys(
    ("DELETE", "TTL", "PURGE"), "DELETE"
)


async def list_selected(app: Application, principal: Principal, filters: Filters) -> list[Memory]:
    """Return the selected memories, newest first, at most MOST_READ."""
    listing = MemoryListing(filters, types=tuple(sorted(TYPES)))
    return await _read_pages(partial(app.memory.read.list_memories, principal, listing, limit=PAGE))


async def search_selected(app: Application, principal: Principal, body: Mem0SearchIn) -> list[Mem0FoundOut]:
    """Return the best selected memories, in Mnema's order; scores are cosine similarities. Raise InvalidInput."""
    query = SearchQuery(
        body.query,
        body.conditions(),
        types=TYPES,
        top_k=body.top_k,
        min_relevance=0.0,
        threshold=body.threshold,
        snippet=SNIPPET,
    )
    return [_found(result) for result in (await app.recall.search.search_memories(principal, query)).results]


def _found(result: SearchResult) -> Mem0FoundOut:
    """Return the result; one that was found by its words alone, because no vector was there, has the score 0."""
    similarity = result.ranked.scored.candidate.similarity
    return Mem0FoundOut.from_memory(result.memory, score=round(max(similarity or 0.0, 0.0), 4))


async def get_active(app: Application, principal: Principal, memory_id: UUID) -> Memory:
    """Return an active memory. Raise NotFound for any other: mem0's clients know no deleted memories."""
    memory = await app.memory.read.get_memory(principal, memory_id)
    if not memory.is_answered(app.parts.clock.now()) or memory.type not in TYPES:
        raise NotFound()
    return memory


async def list_entities(app: Application, principal: Principal) -> list[Mem0EntityOut]:
    """Return the users, agents, apps and runs that have memories which the key may see."""
    lists = app.operations.overview
    found: dict[tuple[EntityType, str], Mem0EntityOut] = {}

    def add(kind: EntityType, name: str, count: int, last: datetime | None, created: datetime | None = None) -> None:
        if count:
            entity = Mem0EntityOut(
                id=name, name=name, type=kind, total_memories=count, created_at=created, updated_at=last
            )
            found[kind, name] = entity

    for user in await _read_pages(lambda cursor: lists.list_users(principal, None, cursor, PAGE)):
        if user.user_id != SHARED_USER:  # has documents alone
            add(*split_stand_in(user.user_id), user.memories, user.last_activity_at, user.created_at)
    for agent in await _read_pages(lambda cursor: lists.list_agents(principal, cursor, PAGE)):
        add("agent", agent.agent, agent.written, agent.last_activity_at)
    for thread in await _read_pages(lambda cursor: lists.list_threads(principal, None, None, cursor, PAGE)):
        add("run", thread.thread_id, thread.memories, thread.last_activity_at)
    order = ("user", "agent", "app", "run")
    return sorted(found.values(), key=lambda entity: (order.index(entity.type), entity.name))


async def list_changes(app: Application, principal: Principal, memory_id: UUID) -> list[Mem0ChangeOut]:
    """Return the changes of a memory, oldest first. Raise NotFound."""
    rows = await _read_pages(lambda cursor: app.memory.history.list_history(principal, memory_id, cursor, PAGE))
    changes = [_change(row) for row in reversed(rows) if row.event in _EVENTS]
    created = changes[0].updated_at if changes else None
    return [change.model_copy(update={"created_at": created}) for change in changes]


def _change(row: Any) -> Mem0ChangeOut:
    """Return a row of the audit trail as mem0's clients know it."""
    before, after = (row.meta.get(name) or {} for name in ("before", "after"))
    event = _EVENTS[row.event]
    return Mem0ChangeOut(
        id=row.id,
        memory_id=row.memory_id,
        event=event,
        old_memory=None if event == "ADD" else _text(before),
        new_memory=None if event == "DELETE" else _text(after),
        user_id=(after or before).get("user_id"),
        input=[],
        created_at=row.ts,
        updated_at=row.ts,
    )


def _text(image: Mapping[str, Any]) -> str | None:
    text = image.get("text")
    return text if isinstance(text, str) else None


async def _read_pages(read_page: Callable[[str | None], Awaitable[Page[T]]]) -> list[T]:
    """Return the items of all pages, at most MOST_READ."""
    page = await read_page(None)
    items = list(page.items)
    while page.next_cursor is not None and len(items) < MOST_READ:
        page = await read_page(page.next_cursor)
        items += page.items
    return items[:MOST_READ]
