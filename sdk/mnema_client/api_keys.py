"""The calls on the API keys of the tenant, which need scope `admin`."""

from collections.abc import Sequence
from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.operator import ApiKey, CreatedKey, NewKey, Scope

from mnema_client.calls import JSON, get_call, ignore_body, json_body, model_reader, path_id
from mnema_client.requests import Moment
from mnema_client.transport import Call


def key_page(*, limit: int | None = None, cursor: str | None = None) -> Call[Page[ApiKey]]:
    """Return one page of the tenant's keys, oldest first. `limit`: keys a page, 1 to 200."""
    return get_call("/keys", Page[ApiKey], limit=limit, cursor=cursor)


def create_key(
    scopes: Sequence[Scope],
    *,
    name: str | None = None,
    agents: Sequence[str] | None = None,
    expires_at: Moment | None = None,
) -> Call[CreatedKey]:
    """Create a key that may do no more than this client's. Only the answer has the plain key.

    It is retried only if surely nothing was done.
    """
    return new_key_call("/keys", scopes, name, agents, expires_at)


def revoke_key(key_id: UUID | str) -> Call[None]:
    """Revoke a key. Every server refuses it within 5 seconds. Raise NotFound if it is revoked already."""
    return Call("DELETE", f"/keys/{path_id(key_id)}", ignore_body, repeatable=False)


def new_key_call(
    path: str,
    scopes: Sequence[Scope],
    name: str | None,
    agents: Sequence[str] | None,
    expires_at: Moment | None,
) -> Call[CreatedKey]:
    """Return the call that creates a key at a path."""
    chosen = None if agents is None else list(agents)
    content = json_body(NewKey, scopes=list(scopes), name=name, agents=chosen, expires_at=expires_at)
    return Call("POST", path, model_reader(CreatedKey), content=content, headers=dict(JSON), repeatable=False)
