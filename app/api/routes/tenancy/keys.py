"""Routes of /keys: the API keys of the tenant. They need scope `admin`."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response
from mnema_wire.fields import Limit, NameCursor
from mnema_wire.operator import ApiKey, ApiKeyPage, CreatedKey, NewKey

from app.api import links
from app.api.deps import Administrator, App
from app.api.errors import body_errors, key_errors
from app.api.schemas.tenancy.keys import told_revocation
from app.api.transport.parameters import StrictRoute

router = APIRouter(prefix="/keys", tags=["keys"], route_class=StrictRoute)


@router.get("", responses={200: {"links": links.OWN_KEYS}, **key_errors()})
async def listed(
    app: App,
    principal: Administrator,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[NameCursor | None, Query(description="`next_cursor` of the previous page")] = None,
) -> ApiKeyPage:
    """List the keys of the tenant, oldest first, revoked ones too."""
    page = await app.tenancy.keys.list_keys(principal, cursor, limit)
    return ApiKeyPage(items=[ApiKey.model_validate(key) for key in page.items], next_cursor=page.next_cursor)


@router.post("", status_code=201, responses={201: {"links": links.OWN_KEY}, **body_errors()})
async def create(app: App, principal: Administrator, body: NewKey, response: Response) -> CreatedKey:
    """Create a key. It may do no more than the key of the request, and ends no later.

    Only this answer has the plain key: if it is lost, revoke the key.
    """
    response.headers["Cache-Control"] = "no-store"
    key, plain = await app.tenancy.keys.create_key(principal, body.name, body.scopes, body.agents, body.expires_at)
    return CreatedKey(**ApiKey.model_validate(key).model_dump(), key=plain)


@router.delete("/{key_id:uuid}", status_code=204, responses=key_errors(404))
async def revoke(app: App, principal: Administrator, key_id: UUID) -> Response:
    """Revoke a key, which may be the key of the request. Every server refuses it within 5 seconds.

    The header `Mnema-Unreached` names clusters that could not be told: they refuse the key when they are back.
    """
    return told_revocation(await app.tenancy.keys.revoke_key(principal, key_id))
