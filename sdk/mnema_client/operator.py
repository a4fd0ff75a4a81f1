"""The clients of the operator: tenants and their API keys. They need the operator key, which is no key of a tenant."""

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.operator import ApiKey, CreatedKey, NewTenant, Scope, Tenant, TenantUsage

from mnema_client.api_keys import new_key_call
from mnema_client.calls import JSON, get_call, ignore_body, json_body, model_reader, path_id
from mnema_client.errors import NotConfigured
from mnema_client.methods import AsyncClient, Method, PagesMethod, SyncClient
from mnema_client.requests import Moment
from mnema_client.transport import Call, Connection, Retry, build_connection


def tenant_page(*, limit: int | None = None, cursor: str | None = None) -> Call[Page[Tenant]]:
    """Return one page of tenants by name. `limit`: tenants a page, 1 to 200."""
    return get_call("/operator/tenants", Page[Tenant], limit=limit, cursor=cursor)


def get_tenant(tenant_id: UUID | str) -> Call[Tenant]:
    """Return one tenant."""
    return get_call(_tenant_path(tenant_id), Tenant)


def create_tenant(name: str, *, cluster: str | None = None, region: str | None = None) -> Call[Tenant]:
    """Create a tenant. Raise Conflict if the name is in use, also by an attempt that was broken off.

    Where there are clusters, `cluster` names its home, and it stays in `region`.
    """
    content = json_body(NewTenant, name=name, cluster=cluster, region=region)
    return Call(
        "POST", "/operator/tenants", model_reader(Tenant), content=content, headers=dict(JSON), repeatable=False
    )


def key_page(tenant_id: UUID | str, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[ApiKey]]:
    """Return one page of a tenant's keys, oldest first. `limit`: keys a page, 1 to 200."""
    return get_call(f"{_tenant_path(tenant_id)}/keys", Page[ApiKey], limit=limit, cursor=cursor)


def create_key(
    tenant_id: UUID | str,
    scopes: Sequence[Scope],
    *,
    name: str | None = None,
    agents: Sequence[str] | None = None,
    expires_at: Moment | None = None,
) -> Call[CreatedKey]:
    """Create a key of a tenant. Only the answer has the plain key. It is retried only if surely nothing was done."""
    return new_key_call(f"{_tenant_path(tenant_id)}/keys", scopes, name, agents, expires_at)


def revoke_key(tenant_id: UUID | str, key_id: UUID | str) -> Call[None]:
    """Revoke a key. Every server refuses it within 5 seconds. Raise NotFound if it is revoked already."""
    path = f"{_tenant_path(tenant_id)}/keys/{path_id(key_id)}"
    return Call("DELETE", path, ignore_body, repeatable=False)


def usage_page(
    *,
    tenant_id: UUID | str | None = None,
    since: date | None = None,
    until: date | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[TenantUsage]]:
    """Return one page of usage: tenants by name, the days of each newest first. It may be empty and have a next page.

    `until` is the day after the last. Without `since`, the last 31 days count. `limit`: rows a page, 1 to 200.
    """
    chosen = None if tenant_id is None else str(tenant_id)
    return get_call(
        "/operator/usage", Page[TenantUsage], tenant_id=chosen, since=since, until=until, limit=limit, cursor=cursor
    )


def _tenant_path(tenant_id: UUID | str) -> str:
    return f"/operator/tenants/{path_id(tenant_id)}"


def _operator_connection(
    base_url: str | None, operator_key: str | None, timeout_s: float, retry: Retry | None
) -> Connection:
    """Return a connection. By default the key comes from the file that MNEMA_OPERATOR_KEY_FILE names."""
    file = os.environ.get("MNEMA_OPERATOR_KEY_FILE")
    if operator_key is None and file:
        operator_key = _read_key(Path(file))
    if not operator_key:
        raise NotConfigured("give operator_key, or set MNEMA_OPERATOR_KEY_FILE to the file that has it")
    return build_connection(base_url, operator_key, timeout_s=timeout_s, retry=retry)


class OperatorMethods:
    """The methods that both clients of the operator have."""

    list_tenants = PagesMethod(tenant_page)
    get_tenant = Method(get_tenant)
    create_tenant = Method(create_tenant)
    list_keys = PagesMethod(key_page)
    create_key = Method(create_key)
    revoke_key = Method(revoke_key)
    list_usage = PagesMethod(usage_page)


class MnemaOperator(OperatorMethods, SyncClient):
    """The operator's synchronous client; `with MnemaOperator(...) as operator:` closes it.

    `base_url`: by default MNEMA_URL. `operator_key`: by default the content of the file MNEMA_OPERATOR_KEY_FILE.
    Methods raise MnemaError.
    """

    def __init__(
        self,
        base_url: str | None = None,
        operator_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(_operator_connection(base_url, operator_key, timeout_s, retry))


class AsyncMnemaOperator(OperatorMethods, AsyncClient):
    """The operator's client for asyncio: `async with AsyncMnemaOperator(...) as operator:`."""

    def __init__(
        self,
        base_url: str | None = None,
        operator_key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(_operator_connection(base_url, operator_key, timeout_s, retry))


def _read_key(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotConfigured(f"the operator's key cannot be read from {file}: {error}") from error
