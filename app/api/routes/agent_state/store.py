"""Routes of /store: values of agents by namespace and key."""

from fastapi import APIRouter, Response
from mnema_wire.store import BatchIn, BatchOut

from app.api.deps import AnyPrincipal, App, require_scope
from app.api.errors import openapi_errors
from app.api.schemas.agent_state.store import render_batch, to_batch
from app.api.transport.parameters import StrictRoute

router = APIRouter(prefix="/store", tags=["store"], route_class=StrictRoute)


@router.post("/batch", response_model=BatchOut, responses=openapi_errors(400, 401, 403, 413, 422, 503))
async def batch(app: App, principal: AnyPrincipal, body: BatchIn) -> Response:
    """Get, search, list and put items in one transaction. `MnemaStore`, the store for LangGraph, uses this route.

    Reads need scope `query`, puts scope `write`. Items have no category, so a key that is bound to agents is refused.
    Puts are idempotent.
    """
    if body.gets or body.searches or body.lists:
        require_scope(principal, "query")
    if body.puts:
        require_scope(principal, "write")
    return Response(
        render_batch(await app.agent_state.store_items.run_batch(principal, to_batch(body))),
        media_type="application/json",
    )
