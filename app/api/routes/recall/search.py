"""Route of /search: memories with citations."""

from fastapi import APIRouter
from mnema_wire.recall import SearchAnswer, SearchRequest

from app.api import links
from app.api.deps import App, Reader
from app.api.errors import openapi_errors
from app.api.schemas.recall.search import search_body, to_search
from app.api.transport.parameters import StrictRoute

router = APIRouter(prefix="/search", tags=["memory"], route_class=StrictRoute)


@router.post(
    "",
    response_model=SearchAnswer,
    responses={200: {"links": links.FOUND}, **openapi_errors(400, 401, 403, 404, 413, 422, 503)},
)
async def search(app: App, principal: Reader, body: SearchRequest) -> SearchAnswer:
    """Find turns, memories and chunks across threads, as numbered lines with the source of each number.

    The search is for no agent. It covers the categories that the key may see, except procedural.
    """
    query = to_search(body)
    if body.project_id is not None:
        await app.tenancy.tenants.require_project(principal, body.project_id)
    return search_body(await app.recall.search.search_memories(principal, query))
