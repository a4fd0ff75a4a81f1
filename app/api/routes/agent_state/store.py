"""/store: values that agents keep by namespace and key."""

from fastapi import APIRouter, Response

from app.api.deps import AnyPrincipal, App, require_scope
from app.api.errors import openapi_errors
from app.api.schemas.agent_state.store import BatchIn, BatchOut, render_batch
from app.api.transport.parameters import StrictRoute

router = APIRouter(prefix="/store", tags=["store"], route_class=StrictRoute)


@router.post("/batch", response_model=BatchOut, responses=openapi_errors(400, 401, 403, 413, 422, 503))
async def batch(app: App, scope: AnyPrincipal, body: BatchIn) -> Response:
    """Get, search, list and put in one transaction; what LangGraph's store asks of `MnemaStore` comes here.

    Reading needs scope query, putting scope write. Of no category: a key that is bound to agents is refused. A put that
    is sent again stores the same value again.
    """
    if body.has_reads:
        require_scope(scope, "query")
    if body.puts:
        require_scope(scope, "write")
    return Response(render_batch(await app.store.run_batch(scope, body.to_domain())), media_type="application/json")
