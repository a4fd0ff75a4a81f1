"""Routes of /operator: tenants and their API keys, for the operator key alone."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from mnema_wire import operator as wire
from mnema_wire.fields import Day, Limit, NameCursor

from app.api import links
from app.api.deps import App, require_operator
from app.api.errors import body_errors, openapi_errors
from app.api.schemas.tenancy.keys import told_revocation
from app.api.transport.parameters import StrictRoute
from app.domain.receipts.usage import UsageFilter
from app.usecases.receipts.tenant_usage import TenantUsage

router = APIRouter(
    prefix="/operator", tags=["operator"], route_class=StrictRoute, dependencies=[Depends(require_operator)]
)
Cursor = Annotated[NameCursor | None, Query(description="`next_cursor` of the previous page")]


def tenant_usage_body(row: TenantUsage) -> wire.TenantUsage:
    """Return the body for a row."""
    counts = {name: getattr(row.usage, name) for name in ("day", "queries", "tokens", "writes", "model_tokens")}
    return wire.TenantUsage(tenant_id=row.tenant.id, tenant=row.tenant.name, **counts)


@router.get("/tenants", responses={200: {"links": links.TENANTS}, **openapi_errors(401, 404, 422, 503)})
async def list_tenants(app: App, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None) -> wire.TenantPage:
    """List tenants by name."""
    page = await app.tenancy.operators.list_tenants(cursor, limit)
    return wire.TenantPage(items=[wire.Tenant.model_validate(t) for t in page.items], next_cursor=page.next_cursor)


@router.post(
    "/tenants",
    status_code=201,
    responses={201: {"links": links.TENANT}, **openapi_errors(400, 401, 404, 409, 413, 422, 503)},
)
async def create_tenant(app: App, body: wire.NewTenant) -> wire.Tenant:
    """Create a tenant. A name that is in use is 409 `name_taken`."""
    return wire.Tenant.model_validate(await app.tenancy.operators.create_tenant(body.name, body.cluster, body.region))


@router.get("/tenants/{tenant_id:uuid}", responses={200: {"links": links.TENANT}, **openapi_errors(401, 404, 422, 503)})
async def get_tenant(app: App, tenant_id: UUID) -> wire.Tenant:
    """Return one tenant."""
    return wire.Tenant.model_validate(await app.tenancy.operators.get_tenant(tenant_id))


@router.get(
    "/tenants/{tenant_id:uuid}/keys", responses={200: {"links": links.API_KEYS}, **openapi_errors(401, 404, 422, 503)}
)
async def list_keys(
    app: App, tenant_id: UUID, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> wire.ApiKeyPage:
    """List the keys of a tenant, oldest first, revoked ones too."""
    page = await app.tenancy.operators.list_keys(tenant_id, cursor, limit)
    return wire.ApiKeyPage(items=[wire.ApiKey.model_validate(key) for key in page.items], next_cursor=page.next_cursor)


@router.post(
    "/tenants/{tenant_id:uuid}/keys", status_code=201, responses={201: {"links": links.API_KEY}, **body_errors(404)}
)
async def create_key(app: App, tenant_id: UUID, body: wire.NewKey, response: Response) -> wire.CreatedKey:
    """Create a key of a tenant. Only this answer has the plain key: if it is lost, revoke the key."""
    response.headers["Cache-Control"] = "no-store"
    key, plain = await app.tenancy.operators.create_key(tenant_id, body.name, body.scopes, body.agents, body.expires_at)
    return wire.CreatedKey(**wire.ApiKey.model_validate(key).model_dump(), key=plain)


@router.delete(
    "/tenants/{tenant_id:uuid}/keys/{key_id:uuid}", status_code=204, responses=openapi_errors(401, 404, 422, 503)
)
async def revoke_key(app: App, tenant_id: UUID, key_id: UUID) -> Response:
    """Revoke a key. Every server refuses it within 5 seconds.

    The header `Mnema-Unreached` names clusters that could not be told: they refuse the key when they are back.
    """
    return told_revocation(await app.tenancy.operators.revoke_key(tenant_id, key_id))


@router.get("/usage", responses={200: {"links": links.TENANT_USAGE}, **openapi_errors(401, 404, 422, 503)})
async def list_usage(
    app: App,
    tenant_id: Annotated[UUID | None, Query(description="only usage of this tenant")] = None,
    since: Annotated[Day | None, Query(description="first day (UTC); without it 31 days count")] = None,
    until: Annotated[Day | None, Query(description="the day after the last one (UTC)")] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Cursor = None,
) -> wire.TenantUsagePage:
    """Count for each tenant what `GET /usage` counts by day. Tenants are sorted by name, the days of each newest first.

    Days without usage are missing. A page may have fewer rows than `limit`, or none, and still have a `next_cursor`.
    """
    filters = UsageFilter(since=since, until=until)
    page = await app.receipts.by_tenant.list_usage(tenant_id, filters, cursor, limit)
    return wire.TenantUsagePage(items=[tenant_usage_body(row) for row in page.items], next_cursor=page.next_cursor)
