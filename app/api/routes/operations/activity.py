"""Routes of /events and /relations."""

from typing import Annotated

from fastapi import APIRouter, Query
from mnema_wire.fields import Identifier, Limit, Moment
from mnema_wire.overview import Event, EventPage, NodeName, Relations, StatusName

from app.api import links
from app.api.deps import App, Reader
from app.api.errors import openapi_errors
from app.api.transport.parameters import StrictRoute
from app.domain.filters import EventFilters

router = APIRouter(tags=["overview"], route_class=StrictRoute)


@router.get(
    "/events",
    response_model=EventPage,
    responses={200: {"links": links.EVENTS}, **openapi_errors(401, 403, 422, 503)},
)
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
    return EventPage(items=[Event.model_validate(event) for event in page.items], next_cursor=page.next_cursor)


@router.get(
    "/relations",
    response_model=Relations,
    responses={200: {"links": links.RELATIONS}, **openapi_errors(401, 403, 422, 503)},
)
async def relations(
    app: App,
    principal: Reader,
    user_id: Annotated[Identifier, Query()],
    min_strength: Annotated[float, Query(ge=0, le=1, description="the least strength of a relation")] = 0.0,
    limit: Annotated[int, Query(ge=1, le=500, description="relations to return")] = 150,
) -> Relations:
    """Return the strongest relations between active memories of a user, and these memories."""
    graph = await app.operations.relations.read_graph(principal, user_id, min_strength, limit)
    return Relations.model_validate(graph)
