"""Routes of /tenant/place and /tenant/moves: where the tenant lives, and moves that its administrators ask for."""

from fastapi import APIRouter
from mnema_wire.places import MoveProblem, MoveTarget, NewMove, TenantMove, TenantPlace

from app.api.deps import Administrator, App
from app.api.errors import body_errors, key_errors
from app.api.transport.parameters import StrictRoute

router = APIRouter(prefix="/tenant", tags=["tenant_place"], route_class=StrictRoute)


@router.get("/place", responses=key_errors(404))
async def get(app: App, principal: Administrator) -> TenantPlace:
    """Return the tenant's cluster and region, its newest move, and the copies in former homes.

    404 `no_clusters` if the installation has one database.
    """
    found = await app.tenancy.places.get_place(principal)
    problem = found.problem
    return TenantPlace(
        cluster=found.cluster,
        region=found.region,
        bound_to=found.bound_to,
        copies=list(found.copies),
        unreached=list(found.unreached),
        targets=[MoveTarget(cluster=name, region=region) for name, region in found.targets.items()],
        move=None if found.move is None else TenantMove.model_validate(found.move),
        problem=None if problem is None else MoveProblem(code=problem.code, detail=problem.detail),
    )


@router.post("/moves", status_code=202, responses=body_errors(404, 409))
async def request_move(app: App, principal: Administrator, body: NewMove) -> TenantMove:
    """Ask for a move to another cluster, which a worker carries out while the tenant is read and written to.

    Follow it with `GET /tenant/place`. Idempotent while the move lasts. 403 `moves_not_offered` unless the operator
    offers moves (`MNEMA_TENANT_MOVES_PER_DAY`), 503 `no_mover` if no worker can move tenants.
    """
    return TenantMove.model_validate(await app.tenancy.places.request_move(principal, body.cluster))


@router.delete("/moves/current", status_code=202, responses=key_errors(404, 409))
async def abort_move(app: App, principal: Administrator) -> TenantMove:
    """Ask for the end of the move that a key of the tenant asked for. It is undone within seconds.

    409 `move_refused` if the tenant is at home in the other cluster already, or if the operator moves it.
    """
    return TenantMove.model_validate(await app.tenancy.places.abort_move(principal))
