"""Routes of /key, /users, /threads, /agents and /categories: what a tenant holds."""

from typing import Annotated

from fastapi import APIRouter, Query
from mnema_wire.fields import FirstCharacters, Identifier, Limit, NameCursor
from mnema_wire.overview import (
    AgentOverviewPage,
    CategoryOverviewPage,
    KeyDescription,
    ThreadOverviewPage,
    UserOverviewPage,
)

from app.api import links
from app.api.deps import AnyPrincipal, App, Reader
from app.api.errors import openapi_errors
from app.api.transport.parameters import StrictRoute

router = APIRouter(tags=["overview"], route_class=StrictRoute)
Cursor = Annotated[NameCursor | None, Query(description="`next_cursor` of the previous page")]
Prefix = Annotated[FirstCharacters | None, Query(description="the first characters of the name")]


@router.get("/key", response_model=KeyDescription, responses=openapi_errors(401, 404, 422, 503))
async def key(app: App, principal: AnyPrincipal) -> KeyDescription:
    """Describe the key of the request: its tenant, its scopes, its agents and what it may see."""
    return KeyDescription.model_validate(await app.operations.key.describe_key(principal))


@router.get(
    "/users",
    response_model=UserOverviewPage,
    responses={200: {"links": links.USERS}, **openapi_errors(401, 403, 422, 503)},
)
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


@router.get(
    "/threads",
    response_model=ThreadOverviewPage,
    responses={200: {"links": links.THREADS}, **openapi_errors(401, 403, 422, 503)},
)
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


@router.get(
    "/agents",
    response_model=AgentOverviewPage,
    responses={200: {"links": links.AGENTS}, **openapi_errors(401, 403, 422, 503)},
)
async def agents(
    app: App, principal: Reader, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> AgentOverviewPage:
    """List the agents that have an allowlist, by name. A key bound to agents sees its own."""
    page = await app.operations.overview.list_agents(principal, cursor, limit)
    return AgentOverviewPage.model_validate(page)


@router.get(
    "/categories",
    response_model=CategoryOverviewPage,
    responses={200: {"links": links.CATEGORIES}, **openapi_errors(401, 403, 422, 503)},
)
async def categories(
    app: App, principal: Reader, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> CategoryOverviewPage:
    """List the configured categories that the key may see, by name."""
    page = await app.operations.overview.list_categories(principal, cursor, limit)
    return CategoryOverviewPage.model_validate(page)
