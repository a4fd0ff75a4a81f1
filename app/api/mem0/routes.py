"""Routes of mem0's clients (`docs/mem0.md`). Versions 1, 2 and 3 of mem0's API share them.

`add` makes a memory or a turn of each message, through the same use-cases as any write.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from fastapi import APIRouter, Header, Path, Query
from mnema_wire.fields import Identifier
from mnema_wire.limits import SHARED_USER

from app.api import links
from app.api.deps import AnyPrincipal, App, Reader, Writer
from app.api.errors import body_errors, key_errors, openapi_errors
from app.api.mem0.identities import DEFAULT_THREAD, NAMES, EntityType, Identities, split_stand_in
from app.api.mem0.schemas import (
    Mem0AddedOut,
    Mem0AddIn,
    Mem0ChangeOut,
    Mem0EntityOut,
    Mem0EntityPageOut,
    Mem0FoundOut,
    Mem0ListIn,
    Mem0MemoryOut,
    Mem0MessageIn,
    Mem0MessageOut,
    Mem0PageOut,
    Mem0PingOut,
    Mem0ResultOut,
    Mem0SearchIn,
    Mem0SearchOut,
    Mem0UpdatedOut,
    Mem0UpdateIn,
    expiry_of,
)
from app.api.transport.idempotency import retry_key
from app.api.transport.parameters import StrictRoute
from app.bootstrap import Application
from app.domain.errors import InvalidInput, NotFound, TextTooLong
from app.domain.filters import Filters
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import Memory, MemoryType, NewMemory, Origin
from app.domain.paging import Page
from app.domain.principal import Principal
from app.usecases.memory.batch_plans import MatchingBatch
from app.usecases.recall.search import SearchQuery, SearchResult

router = APIRouter(tags=["mem0"], route_class=StrictRoute)
ROUTE = "POST /v3/memories/add/"
Retry = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=150)]
PageNumber = Annotated[int, Query(ge=1, le=10_000, description="number of the page, from 1")]
PageSize = Annotated[int, Query(ge=1, le=200, description="entries of a page")]
EntityPageSize = Annotated[int, Query(ge=1, le=40_000, description="entries of a page")]
Org = Annotated[Identifier | None, Query(description="taken for mem0's clients, without effect")]
Id = Annotated[Identifier | None, Query(description="only memories with this id")]
_MEMORY = "/v1/memories/{memory_id:uuid}/"
_ADDED: dict[int | str, Any] = {
    200: {"links": links.MEM0},
    **body_errors(409),
}
_FOUND: dict[int | str, Any] = {200: {"links": links.MEM0}, **body_errors()}
_ERRORS = key_errors(404)
MakeKey = Callable[[str], IdempotencyKey | None]
"""Return the idempotency key of a part of the request, None if the request has none."""
_EVENTS: Final = {"created": "ADD", "updated": "UPDATE", "merged": "UPDATE", "unchanged": "NONE", "skipped": "NONE"}
T = TypeVar("T")
PAGE: Final = 200
MOST_READ: Final = 10_000
"""Memories that one list reads at most, and entities of each type."""
SNIPPET: Final = 32_000
TYPES: Final = frozenset(MemoryType) - {MemoryType.chunk, MemoryType.procedural}
"""The types that mem0's clients see. Chunks are parts of documents, procedures are for agents that ask for them."""
_CHANGE_EVENTS: Final = {"ADD": "ADD", "RESTORE": "ADD", "UPDATE": "UPDATE", "MERGE": "UPDATE"} | dict.fromkeys(
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
    changes = [_change(row) for row in reversed(rows) if row.event in _CHANGE_EVENTS]
    created = changes[0].updated_at if changes else None
    return [change.model_copy(update={"created_at": created}) for change in changes]


def _change(row: Any) -> Mem0ChangeOut:
    """Return a row of the audit trail as mem0's clients know it."""
    before, after = (row.meta.get(name) or {} for name in ("before", "after"))
    event = _CHANGE_EVENTS[row.event]
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


async def add_messages(
    app: Application, principal: Principal, body: Mem0AddIn, make_key: MakeKey
) -> list[Mem0ResultOut]:
    """Remember the messages of `body`, in order. All are checked before the first is written.

    Raise InvalidInput without an id, and what the use-cases of memories and turns raise.
    """
    as_turns = body.infer and app.parts.chat.is_available
    drafts = [_draft(app, principal, body, message, as_turns) for message in _remembered(body, as_turns)]
    results = []
    for number, draft in enumerate(drafts):
        remember = _store_turn if draft.type is MemoryType.turn else _write_memory
        results.append(await remember(app, principal, draft, make_key(f"{number}")))
    return results


def _remembered(body: Mem0AddIn, as_turns: bool) -> list[Mem0MessageIn]:
    """Return the messages to remember: never the system's.

    With `infer` but without a chat model, only the user's messages are remembered if the request names a user.
    """
    users_only = body.infer and not as_turns and body.identities().user_id is not None
    return [m for m in body.messages if m.role != "system" and (m.role == "user" or not users_only)]


def _draft(app: Application, principal: Principal, body: Mem0AddIn, message: Mem0MessageIn, as_turn: bool) -> NewMemory:
    """Return the checked memory for a message; a text too long for a memory is a turn."""
    if as_turn:
        return _checked(app, principal, body, message, MemoryType.turn)
    try:
        return _checked(app, principal, body, message, MemoryType.semantic)
    except TextTooLong:
        return _checked(app, principal, body, message, MemoryType.turn)


def _checked(
    app: Application, principal: Principal, body: Mem0AddIn, message: Mem0MessageIn, kind: MemoryType
) -> NewMemory:
    policies = app.parts.policies.of(principal)
    ids = body.identities()
    is_turn = kind is MemoryType.turn
    draft = NewMemory(
        user_id=ids.owner,
        category=body.category or (policies.turn_category if is_turn else policies.facts.category),
        text=message.content,
        type=kind,
        thread_id=ids.run_id or (DEFAULT_THREAD if is_turn else None),
        agent_id=ids.agent_id,
        actor_id=message.name,
        role=message.role,
        importance=policies.write.default_importance,
        tags=ids.tags,
        metadata=body.metadata,
        created_at=body.created_at,
        expires_at=expiry_of(body.expiration_date),
        origin=Origin.turn if is_turn else Origin.api,
    )
    return app.memory.write.check_draft(principal, draft)


async def _write_memory(
    app: Application, principal: Principal, draft: NewMemory, key: IdempotencyKey | None
) -> Mem0ResultOut:
    written = await app.memory.write.write_memory(principal, draft, key=key)
    text = draft.text
    if written.id is not None and written.action != "created":
        text = (await app.memory.read.get_memory(principal, written.id)).text
    return Mem0ResultOut(id=written.id, memory=text, event=_EVENTS[written.action])


async def _store_turn(
    app: Application, principal: Principal, draft: NewMemory, key: IdempotencyKey | None
) -> Mem0ResultOut:
    stored = await app.memory.turns.store_turn(principal, draft, key=key)
    return Mem0ResultOut(id=stored.id, memory=draft.text, event="NONE" if stored.id is None else "ADD")


@router.get("/v1/ping/", responses=openapi_errors(401, 422, 503))
async def ping(principal: AnyPrincipal, org_id: Org = None, project_id: Org = None) -> Mem0PingOut:
    """Tell that the key is valid. mem0's clients call this first."""
    return Mem0PingOut(org_id=principal.tenant_id, project_id=principal.tenant_id)


@router.post("/v3/memories/add/", responses=_ADDED)
@router.post("/v1/memories/", name="add_v1", responses=_ADDED)
async def add(app: App, principal: Writer, body: Mem0AddIn, idempotency_key: Retry = None) -> Mem0AddedOut:
    """Remember messages.

    With `infer` and a chat model, messages are turns, and background jobs draw memories from them. Otherwise each
    message of the user, or each message with `infer` false, is a memory; a text too long for one is a turn. Retry with
    the same `Idempotency-Key` and body to write each message once.
    """

    def make_key(part: str) -> IdempotencyKey | None:
        return retry_key(ROUTE, idempotency_key and f"{part}:{idempotency_key}", body)

    return Mem0AddedOut(results=await add_messages(app, principal, body, make_key))


@router.post("/v3/memories/", name="page", responses=_FOUND)
@router.post("/v2/memories/", name="page_v2", responses=_FOUND)
async def list_page(
    app: App, principal: Reader, body: Mem0ListIn, page: PageNumber = 1, page_size: PageSize = 100
) -> Mem0PageOut:
    """List the memories that match, newest first."""
    found = await list_selected(app, principal, body.conditions())
    shown = found[(page - 1) * page_size : page * page_size]
    return Mem0PageOut(
        count=len(found),
        results=[Mem0MemoryOut.from_memory(memory) for memory in shown],
        **_neighbours("/v3/memories/", page, page_size, len(found)),
    )


@router.post("/v3/memories/search/", responses=_FOUND)
@router.post("/v2/memories/search/", name="search_v2", responses=_FOUND)
async def search(app: App, principal: Reader, body: Mem0SearchIn) -> Mem0SearchOut:
    """Find the memories that help to answer a query, best first. All conditions hold before the ranking."""
    return Mem0SearchOut(results=await search_selected(app, principal, body))


@router.delete("/v1/memories/", responses=key_errors())
async def delete_all(
    app: App,
    principal: Writer,
    user_id: Id = None,
    agent_id: Id = None,
    app_id: Id = None,
    run_id: Id = None,
    org_id: Org = None,
    project_id: Org = None,
) -> Mem0MessageOut:
    """Soft-delete all memories with these ids, at most 10,000. They are one batch, which can be undone."""
    deleted = await _delete_matching(app, principal, Identities(user_id, agent_id, app_id, run_id))
    return Mem0MessageOut(message=f"{deleted} memories deleted successfully!")


@router.get(_MEMORY, responses=_ERRORS)
async def get(
    app: App, principal: Reader, memory_id: UUID, org_id: Org = None, project_id: Org = None
) -> Mem0MemoryOut:
    """Return one active memory."""
    return Mem0MemoryOut.from_memory(await get_active(app, principal, memory_id))


@router.put(_MEMORY, responses=body_errors(404, 409))
async def update(
    app: App, principal: Writer, memory_id: UUID, body: Mem0UpdateIn, org_id: Org = None, project_id: Org = None
) -> Mem0UpdatedOut:
    """Change the text, the metadata or the last day of a memory. The metadata is replaced as a whole."""
    changes = body.named_changes()
    await get_active(app, principal, memory_id)
    memory = await app.memory.edit.patch_memory(principal, memory_id, changes, version=None)
    return Mem0UpdatedOut.from_memory(memory, text=memory.text)


@router.delete(_MEMORY, responses=key_errors(404, 409))
async def delete(
    app: App,
    principal: Writer,
    memory_id: UUID,
    delete_linked: Annotated[
        bool | None, Query(description="without effect: superseded memories are never answered")
    ] = None,
    org_id: Org = None,
    project_id: Org = None,
) -> Mem0MessageOut:
    """Soft-delete a memory. It can be restored for a while with `POST /memory/{memory_id}/restore`."""
    await get_active(app, principal, memory_id)
    await app.memory.edit.soft_delete_memory(principal, memory_id)
    return Mem0MessageOut(message="Memory deleted successfully!")


@router.get(f"{_MEMORY}history/", responses=_ERRORS)
async def history(
    app: App, principal: Reader, memory_id: UUID, org_id: Org = None, project_id: Org = None
) -> list[Mem0ChangeOut]:
    """List the changes of a memory, oldest first."""
    return await list_changes(app, principal, memory_id)


@router.get("/v1/entities/", responses=key_errors())
async def entities(
    app: App,
    principal: Reader,
    page: PageNumber = 1,
    page_size: EntityPageSize = 1000,
    org_id: Org = None,
    project_id: Org = None,
) -> Mem0EntityPageOut:
    """List the users, agents, apps and runs that have memories."""
    found = await list_entities(app, principal)
    return Mem0EntityPageOut(
        count=len(found),
        results=found[(page - 1) * page_size : page * page_size],
        **_neighbours("/v1/entities/", page, page_size, len(found)),
    )


@router.delete("/v2/entities/{entity_type}/{entity_id:path}/", responses=key_errors())
async def delete_entity(
    app: App,
    principal: Writer,
    entity_type: Annotated[EntityType, Path(description="what has the name")],
    entity_id: Annotated[Identifier, Path(description="its name")],
    org_id: Org = None,
    project_id: Org = None,
) -> Mem0MessageOut:
    """Soft-delete all memories of a user, an agent, an app or a run, at most 10,000.

    One that has no memories, or none any more, is deleted already: mem0's clients delete what they listed before, and a
    memory may have a user, an agent and a run. To erase a user for good, send `POST /users/{user_id}/erase`.
    """
    await _delete_matching(app, principal, Identities(**{f"{entity_type}_id": entity_id}))
    return Mem0MessageOut(message="Entity deleted successfully!")


async def _delete_matching(app: Application, principal: Principal, ids: Identities) -> int:
    """Soft-delete the active memories with all these ids; return how many. Raise InvalidInput without an id."""
    if ids.is_empty or "*" in (getattr(ids, name) for name in NAMES):
        raise InvalidInput(f"name at least one of: {', '.join(NAMES)}, without '*': all memories would be deleted")
    return (
        await app.memory.batches.change_matching(principal, MatchingBatch(MemoryListing(ids.to_filters()), None))
    ).changed


def _neighbours(path: str, page: int, size: int, count: int) -> dict[str, str | None]:
    """Return the paths of the pages beside a page."""
    following = f"{path}?page={page + 1}&page_size={size}" if page * size < count else None
    before = f"{path}?page={page - 1}&page_size={size}" if page > 1 else None
    return {"next": following, "previous": before}
