"""Tenants and API keys. A key is 32 random bytes, so a plain SHA-256 of it is safe to store."""

import contextlib
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.errors import InvalidInput, Unauthenticated, WrongState
from app.domain.outages import DatabaseUnavailable
from app.domain.paging import Position
from app.domain.principal import Principal
from app.storage.clusters.homes import Place, Revocation
from app.storage.clusters.routing import ClusterUnitOfWork
from app.storage.identity import new_id
from app.storage.recall.delta import drop_key_cursors
from app.storage.uow import Row, UnitOfWork, WriteTx


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant: an isolated customer of the installation."""

    id: UUID
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key as it can be shown: everything except the key itself."""

    id: UUID
    name: str
    prefix: str
    agents: tuple[str, ...] | None
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """The tenant and the rights that a valid key stands for. `agents` is None if it is bound to none."""

    tenant_id: UUID
    key_id: UUID
    agents: tuple[str, ...] | None
    scopes: frozenset[str]
    expires_at: datetime | None


_INSERT = """
INSERT INTO api_keys (tenant_id, id, name, prefix, key_hash, agents, scopes, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id, name, prefix, agents, scopes, created_at, expires_at, revoked_at
"""
_LIST = """
SELECT id, name, prefix, agents, scopes, created_at, expires_at, revoked_at FROM api_keys
WHERE tenant_id = $1 AND ($2::timestamptz IS NULL OR (created_at, id) > ($2, $3::uuid))
ORDER BY created_at, id LIMIT $4
"""
_HOLD_VALID = """
SELECT expires_at FROM api_keys WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > clock_timestamp()) FOR SHARE
"""
_PAGE_TENANTS = "SELECT * FROM list_tenants() WHERE $1::text IS NULL OR name > $1 ORDER BY name LIMIT $2"


def hash_key(key: str) -> bytes:
    """Return the stored form of a key, 32 bytes."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


class TenantStorage:
    """Statements on tenants and keys."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow
        self._homes = uow.homes if isinstance(uow, ClusterUnitOfWork) else None

    async def find_key_owner(self, key: str, tenant_id: UUID | None = None) -> KeyOwner | None:
        """Return the owner of this key; None if it is unknown, revoked or expired.

        With its `tenant_id`, if the caller knows it, the tenant's home is asked.
        """
        rows = await self._uow.call_definer_for(tenant_id, "SELECT * FROM authenticate($1)", hash_key(key))
        return _owner_from_row(rows[0]) if rows else None

    async def _read(self, principal: Principal, statement: str, *args: Any) -> list[Row]:
        """Read the tenant's rows of the directory. Where there are clusters, each one that answers has them."""

        async def ask(uow: UnitOfWork) -> list[Row]:
            async with uow.read(principal) as tx:
                return await tx.fetch(statement, *args)

        return await (ask(self._uow) if self._homes is None else self._homes.ask_any(ask))

    async def list_tenants(self) -> list[Tenant]:
        """Return all tenants, by name."""
        return [_tenant_from_row(row) for row in await self._uow.call_definer("SELECT * FROM list_tenants()")]

    async def list_reachable_tenants(self) -> list[Tenant]:
        """Return the tenants, without those whose cluster does not answer now."""
        tenants = await self.list_tenants()
        if self._homes is None:
            return tenants
        homes, reachable = self._homes, await self._homes.list_reachable()
        return [tenant for tenant in tenants if homes.known_home(tenant.id) in (*reachable, None)]

    async def page_tenants(self, after: str | None, limit: int) -> list[Tenant]:
        """Return the tenants whose names follow `after`, by name, at most `limit`."""
        return [_tenant_from_row(row) for row in await self._uow.call_definer(_PAGE_TENANTS, after, limit)]

    async def get_tenant(self, tenant_id: UUID) -> Tenant | None:
        """Return the tenant, or None."""
        rows = await self._read(
            Principal(tenant_id), "SELECT id, name, created_at FROM tenants WHERE id = $1", tenant_id
        )
        return _tenant_from_row(rows[0]) if rows else None

    async def get_tenant_name(self, principal: Principal) -> str | None:
        """Return the name of the principal's own tenant, or None."""
        rows = await self._read(principal, "SELECT name FROM tenants WHERE id = $1", principal.tenant_id)
        return rows[0]["name"] if rows else None

    async def create_tenant(self, name: str, cluster: str | None = None, region: str | None = None) -> Tenant:
        """Create a tenant, at home in the named cluster or in one of the region, to which it is then bound.

        Raise DuplicateText if the name is taken, InvalidInput for a cluster or a region that does not exist, and
        WrongState for one in an installation without clusters.
        """
        if self._homes is None and (cluster or region):
            raise WrongState("this installation has one cluster: leave `cluster` and `region` out")
        home = None if self._homes is None else await self._homes.choose_home(cluster, region)
        tenant_id = new_id()
        async with self._uow.directory.write(Principal(tenant_id)) as tx:
            row = await tx.fetchrow(
                "INSERT INTO tenants (id, name) VALUES ($1, $2) RETURNING id, name, created_at", tenant_id, name
            )
            if self._homes is not None and home is not None:
                await self._homes.place_tenant(tx, tenant_id, Place(home, region))
        if self._homes is not None and home is not None:
            await self._homes.await_settled(tenant_id, home)
        return _tenant_from_row(row)

    async def create_key(
        self,
        principal: Principal,
        name: str,
        scopes: Sequence[str],
        agents: Sequence[str] | None,
        expires_at: datetime | None,
    ) -> tuple[ApiKey, str]:
        """Create a key; return it with its plain text, which is stored nowhere.

        Raise Unauthenticated if the principal's own key has ended, InvalidInput if it ends before the new one.
        """
        plain = f"mnema_{secrets.token_urlsafe(32)}"
        async with self._uow.directory.write(principal) as tx:
            if principal.key_id is not None:
                await _hold_maker(tx, principal.tenant_id, principal.key_id, expires_at)
            row = await tx.fetchrow(
                _INSERT,
                principal.tenant_id,
                new_id(),
                name,
                plain[:12],
                hash_key(plain),
                None if agents is None else list(agents),
                list(scopes),
                expires_at,
            )
        key = _key_from_row(row)
        if self._homes is not None:
            await self._homes.await_key(principal.tenant_id, key.id)
        return key, plain

    async def list_keys(self, principal: Principal) -> list[ApiKey]:
        """Return the tenant's keys, oldest first."""
        rows = await self._read(principal, _LIST, principal.tenant_id, None, None, None)
        return [_key_from_row(row) for row in rows]

    async def page_keys(self, principal: Principal, after: Position | None, limit: int) -> list[ApiKey]:
        """Return the tenant's keys behind `after`, oldest first, at most `limit`."""
        rows = await self._read(principal, _LIST, principal.tenant_id, *(after or (None, None)), limit)
        return [_key_from_row(row) for row in rows]

    async def revoke_key(self, principal: Principal, key_id: UUID) -> Revocation:
        """Revoke a key and delete its delta cursors.

        Where there are clusters, each one that answers refuses the key from now on; the others are named.
        """
        if self._homes is not None:
            revocation = await self._homes.revoke_key(principal.tenant_id, key_id)
            with contextlib.suppress(DatabaseUnavailable):  # its cursors are of no use to anybody
                async with self._uow.write(principal) as tx:
                    await drop_key_cursors(tx, principal, key_id)
            return revocation
        async with self._uow.write(principal) as tx:
            tag = await tx.execute(
                "UPDATE api_keys SET revoked_at = now() WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL",
                principal.tenant_id,
                key_id,
            )
            await drop_key_cursors(tx, principal, key_id)
        return Revocation(tag == "UPDATE 1", ())


async def _hold_maker(tx: WriteTx, tenant_id: UUID, key_id: UUID, expires_at: datetime | None) -> None:
    """Hold the row of the key that makes another one until the end of the transaction.

    Without this a revoked key could live on in a new one, because a server may hear of a revocation seconds later. A
    revocation waits for the creation that it did not prevent. Raise Unauthenticated or InvalidInput.
    """
    row = await tx.fetchrow(_HOLD_VALID, tenant_id, key_id)
    if row is None:
        raise Unauthenticated("the API key has been revoked or has expired")
    own_end: datetime | None = row["expires_at"]
    if own_end is not None and (expires_at is None or expires_at > own_end):
        raise InvalidInput(f"this key ends at {own_end.isoformat()}; give expires_at, at that time or before")


def _tenant_from_row(row: Any) -> Tenant:
    return Tenant(**dict(row))


def _key_from_row(row: Any) -> ApiKey:
    values = dict(row)
    values["agents"] = None if values["agents"] is None else tuple(values["agents"])
    values["scopes"] = tuple(values["scopes"])
    return ApiKey(**values)


def _owner_from_row(row: Any) -> KeyOwner:
    agents = None if row["agents"] is None else tuple(row["agents"])
    return KeyOwner(row["tenant_id"], row["key_id"], agents, frozenset(row["scopes"]), row["expires_at"])
