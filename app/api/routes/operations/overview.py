"""Routes of /key, /users, /threads, /agents, /categories, /events and /relations: what a tenant holds and did."""

from typing import Annotated

from fastapi import APIRouter, Query
from mnema_wire.fields import FirstCharacters, Identifier, Limit, Moment, NameCursor
from mnema_wire.overview import (
    AgentOverviewPage,
    CategoryOverviewPage,
    EventPage,
    KeyDescription,
    NodeName,
    Relations,
    StatusName,
    ThreadOverviewPage,
    UserOverviewPage,
)

from app.api import links
from app.api.deps import AnyPrincipal, App, Reader
from app.api.errors import key_errors, openapi_errors
from app.api.transport.parameters import StrictRoute
from app.domain.filters import EventFilters

router = APIRouter(tags=["overview"], route_class=StrictRoute)
Cursor = Annotated[NameCursor | None, Query(description="`next_cursor` of the previous page")]
Prefix = Annotated[FirstCharacters | None, Query(description="the first characters of the name")]


@router.get("/key", responses=openapi_errors(401, 404, 422, 503))
async def key(app: App, principal: AnyPrincipal) -> KeyDescription:
    """Describe the key of the request: its tenant, its scopes, its agents and what it may see."""
    return await app.operations.key.describe_key(principal)


@router.get("/users", responses={200: {"links": links.USERS}, **key_errors()})
async def users(
    app: App,
    principal: Reader,
    prefix: Prefix = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Cursor = None,
) -> UserOverviewPage:
    """List users with the numbers of their memories and threads, by name.

    A key bound to agents sees the users with a memory, a fact, a source or a turn that it may see.
    """
    page = await app.operations.overview.list_users(principal, prefix, cursor, limit)
    return UserOverviewPage.model_validate(page)


@router.get("/threads", responses={200: {"links": links.THREADS}, **key_errors()})
async def threads(
    app: App,
    principal: Reader,
    user_id: Annotated[Identifier | None, Query(description="only threads of this user; absent: of all users")] = None,
    prefix: Prefix = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Cursor = None,
) -> ThreadOverviewPage:
    """List threads that hold active memories, by name."""
    page = await app.operations.overview.list_threads(principal, user_id, prefix, cursor, limit)
    return ThreadOverviewPage.model_validate(page)


@router.get("/agents", responses={200: {"links": links.AGENTS}, **key_errors()})
async def agents(
    app: App, principal: Reader, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> AgentOverviewPage:
    """List the agents that have an allowlist, by name. A key bound to agents sees its own."""
    page = await app.operations.overview.list_agents(principal, cursor, limit)
    return AgentOverviewPage.model_validate(page)


@router.get("/categories", responses={200: {"links": links.CATEGORIES}, **key_errors()})
async def categories(
    app: App, principal: Reader, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> CategoryOverviewPage:
    """List the configured categories that the key may see, by name."""
    page = await app.operations.overview.list_categories(principal, cursor, limit)
    return CategoryOverviewPage.model_validate(page)


@router.get("/events", responses={200: {"links": links.EVENTS}, **key_errors()})
async def events(
    app: App,
    principal: Reader,
    node: Annotated[NodeName | None, Query()] = None,
    op: Annotated[Identifier | None, Query(description="the operation, such as create or search")] = None,
    status: Annotated[StatusName | None, Query()] = None,
    user_id: Annotated[Identifier | None, Query()] = None,
    thread_id: Annotated[Identifier | None, Query()] = None,
    since: Annotated[Moment | None, Query(description="only events from then on")] = None,
    until: Annotated[Moment | None, Query(description="only events before then")] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> EventPage:
    """List events, newest first. A key bound to agents sees those of its categories."""
    filters = EventFilters(node, op, status, user_id, thread_id, since, until)
    page = await app.operations.list_events.list_events(principal, filters, cursor, limit)
    return EventPage(items=page.items, next_cursor=page.next_cursor)


@router.get("/relations", responses={200: {"links": links.RELATIONS}, **key_errors()})
async def relations(
    app: App,
    principal: Reader,
    user_id: Annotated[Identifier, Query()],
    min_strength: Annotated[float, Query(ge=0, le=1, description="the least strength of a relation")] = 0.0,
    limit: Annotated[int, Query(ge=1, le=500, description="relations to return")] = 150,
) -> Relations:
    """Return the strongest relations between active memories of a user, and these memories."""
    return await app.operations.relations.read_graph(principal, user_id, min_strength, limit)
