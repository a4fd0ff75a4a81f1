"""Routes of mem0's clients (`docs/mem0.md`). Versions 1, 2 and 3 of mem0's API share them."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Path, Query
from mnema_wire.fields import Identifier

from app.api import links
from app.api.deps import AnyPrincipal, App, Reader, Writer
from app.api.errors import openapi_errors
from app.api.mem0.adding import add_messages
from app.api.mem0.identities import NAMES, EntityType, Identities
from app.api.mem0.reading import get_active, list_changes, list_entities, list_selected, search_selected
from app.api.mem0.schemas import (
    Mem0AddedOut,
    Mem0AddIn,
    Mem0ChangeOut,
    Mem0EntityPageOut,
    Mem0ListIn,
    Mem0MemoryOut,
    Mem0MessageOut,
    Mem0PageOut,
    Mem0PingOut,
    Mem0SearchIn,
    Mem0SearchOut,
    Mem0UpdatedOut,
    Mem0UpdateIn,
)
from app.api.transport.idempotency import retry_key
from app.api.transport.parameters import StrictRoute
from app.bootstrap import Application
from app.domain.errors import InvalidInput
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.listing import MemoryListing
from app.domain.principal import Principal
from app.usecases.memory.batch_plans import MatchingBatch

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
    **openapi_errors(400, 401, 403, 409, 413, 422, 503),
}
_FOUND: dict[int | str, Any] = {200: {"links": links.MEM0}, **openapi_errors(400, 401, 403, 413, 422, 503)}
_ERRORS = openapi_errors(401, 403, 404, 422, 503)


@router.get("/v1/ping/", response_model=Mem0PingOut, responses=openapi_errors(401, 422, 503))
async def ping(principal: AnyPrincipal, org_id: Org = None, project_id: Org = None) -> Mem0PingOut:
    """Tell that the key is valid. mem0's clients call this first."""
    return Mem0PingOut(org_id=principal.tenant_id, project_id=principal.tenant_id)


@router.post("/v3/memories/add/", response_model=Mem0AddedOut, responses=_ADDED)
@router.post("/v1/memories/", name="add_v1", response_model=Mem0AddedOut, responses=_ADDED)
async def add(app: App, principal: Writer, body: Mem0AddIn, idempotency_key: Retry = None) -> Mem0AddedOut:
    """Remember messages.

    With `infer` and a chat model, messages are turns, and background jobs draw memories from them. Otherwise each
    message of the user, or each message with `infer` false, is a memory; a text too long for one is a turn. Retry with
    the same `Idempotency-Key` and body to write each message once.
    """

    def make_key(part: str) -> IdempotencyKey | None:
        return retry_key(ROUTE, idempotency_key and f"{part}:{idempotency_key}", body)

    return Mem0AddedOut(results=await add_messages(app, principal, body, make_key))


@router.post("/v3/memories/", name="page", response_model=Mem0PageOut, responses=_FOUND)
@router.post("/v2/memories/", name="page_v2", response_model=Mem0PageOut, responses=_FOUND)
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


@router.post("/v3/memories/search/", response_model=Mem0SearchOut, responses=_FOUND)
@router.post("/v2/memories/search/", name="search_v2", response_model=Mem0SearchOut, responses=_FOUND)
async def search(app: App, principal: Reader, body: Mem0SearchIn) -> Mem0SearchOut:
    """Find the memories that help to answer a query, best first. All conditions hold before the ranking."""
    return Mem0SearchOut(results=await search_selected(app, principal, body))


@router.delete("/v1/memories/", response_model=Mem0MessageOut, responses=openapi_errors(401, 403, 422, 503))
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


@router.get(_MEMORY, response_model=Mem0MemoryOut, responses=_ERRORS)
async def get(
    app: App, principal: Reader, memory_id: UUID, org_id: Org = None, project_id: Org = None
) -> Mem0MemoryOut:
    """Return one active memory."""
    return Mem0MemoryOut.from_memory(await get_active(app, principal, memory_id))


@router.put(
    _MEMORY,
    response_model=Mem0UpdatedOut,
    responses=openapi_errors(400, 401, 403, 404, 409, 413, 422, 503),
)
async def update(
    app: App, principal: Writer, memory_id: UUID, body: Mem0UpdateIn, org_id: Org = None, project_id: Org = None
) -> Mem0UpdatedOut:
    """Change the text, the metadata or the last day of a memory. The metadata is replaced as a whole."""
    changes = body.named_changes()
    await get_active(app, principal, memory_id)
    memory = await app.memory.edit.patch_memory(principal, memory_id, changes, version=None)
    return Mem0UpdatedOut.from_memory(memory, text=memory.text)


@router.delete(_MEMORY, response_model=Mem0MessageOut, responses=openapi_errors(401, 403, 404, 409, 422, 503))
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


@router.get(f"{_MEMORY}history/", response_model=list[Mem0ChangeOut], responses=_ERRORS)
async def history(
    app: App, principal: Reader, memory_id: UUID, org_id: Org = None, project_id: Org = None
) -> list[Mem0ChangeOut]:
    """List the changes of a memory, oldest first."""
    return await list_changes(app, principal, memory_id)


@router.get("/v1/entities/", response_model=Mem0EntityPageOut, responses=openapi_errors(401, 403, 422, 503))
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


@router.delete(
    "/v2/entities/{entity_type}/{entity_id:path}/",
    response_model=Mem0MessageOut,
    responses=openapi_errors(401, 403, 422, 503),
)
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
