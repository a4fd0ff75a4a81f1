"""Tenants and keys over HTTP, for the holder of the installation's operator key."""

import hashlib
import hmac
import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import structlog

from app.domain.errors import NotFound, Unauthenticated
from app.domain.paging import Page, cut_page, decode_text, encode_place
from app.domain.principal import Principal
from app.domain.tenancy.operators import OperatorDisabled, TooManyAttempts, WrongAttempts
from app.storage.tenancy.tenants import ApiKey, Tenant, TenantStorage
from app.usecases.tenancy.keys import ManageKeys
from app.usecases.tenancy.tenants import Tenants

log = structlog.get_logger(__name__)
T = TypeVar("T")


class Operators:
    """The operator's use-cases. The log has a line `operator_change` for each change, without secrets.

    A caller must pass `admit_operator` before any other method. The operator key is no key of a tenant.
    """

    def __init__(
        self,
        tenants: Tenants,
        storage: TenantStorage,
        key: str | None,
        keys: ManageKeys,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the operator's `key`; None refuses every caller. `now` returns seconds."""
        self._tenants = tenants
        self._storage = storage
        self._keys = keys
        self._digest = None if key is None else _digest_of(key)
        self._now = now
        self._wrong = WrongAttempts()

    def admit_operator(self, address: str | None, key: str | None) -> None:
        """Check the key of a request from this client address, in constant time.

        Raise OperatorDisabled, Unauthenticated, or TooManyAttempts after ten wrong keys of the address in a minute,
        whatever key comes then.
        """
        if self._digest is None:
            raise OperatorDisabled()
        now = self._now()
        if (wait_s := self._wrong.wait_s(address, now)) > 0:
            raise TooManyAttempts(retry_after=math.ceil(wait_s))
        if key is None:
            raise Unauthenticated("Send the operator key as `Authorization: Bearer …`.")
        if not hmac.compare_digest(_digest_of(key), self._digest):
            self._wrong.add_wrong(address, now)
            log.warning("operator_key_refused", address=address)
            raise Unauthenticated("The operator key is wrong.")

    async def list_tenants(self, cursor: str | None, limit: int) -> Page[Tenant]:
        """Return a page of tenants by name. Raise InvalidCursor."""
        rows = await self._storage.page_tenants(decode_text(cursor), limit + 1)
        return cut_page(rows, limit, lambda tenant: encode_place((tenant.name,)))

    async def get_tenant(self, tenant_id: UUID) -> Tenant:
        """Return the tenant. Raise NotFound."""
        tenant = await self._storage.get_tenant(tenant_id)
        if tenant is None:
            raise NotFound("no such tenant")
        return tenant

    async def create_tenant(self, name: str, cluster: str | None, region: str | None) -> Tenant:
        """Create a tenant. Raise ConflictingName or InvalidInput."""
        tenant = await self._tenants.create_tenant(name, cluster, region)
        self._log_change("create_tenant", tenant.id)
        return tenant

    async def list_keys(self, tenant_id: UUID, cursor: str | None, limit: int) -> Page[ApiKey]:
        """Return a page of the tenant's keys, oldest first, revoked ones too. Raise NotFound or InvalidCursor."""
        await self.get_tenant(tenant_id)
        return await self._keys.list_keys(_operator_of(tenant_id), cursor, limit)

    async def create_key(
        self,
        tenant_id: UUID,
        name: str,
        scopes: Sequence[str],
        agents: Sequence[str] | None,
        expires_at: datetime | None,
    ) -> tuple[ApiKey, str]:
        """Create a key of a tenant; return it with its plain text, which is not stored.

        Raise NotFound, InvalidInput or UnknownAgent.
        """
        await self.get_tenant(tenant_id)
        key, plain = await self._keys.create_key(_operator_of(tenant_id), name, scopes, agents, expires_at)
        self._log_change("create_key", tenant_id, key_id=str(key.id), scopes=list(key.scopes))
        return key, plain

    async def revoke_key(self, tenant_id: UUID, key_id: UUID) -> tuple[str, ...]:
        """Revoke a key; return the clusters that could not be told, which refuse it later.

        Raise NotFound if the tenant has no such key or it is revoked already.
        """
        await self.get_tenant(tenant_id)
        unreached = await self._keys.revoke_key(_operator_of(tenant_id), key_id)
        self._log_change("revoke_key", tenant_id, key_id=str(key_id))
        return unreached

    def _log_change(self, action: str, tenant_id: UUID, **fields: Any) -> None:
        log.info("operator_change", action=action, tenant=str(tenant_id), **fields)


def _operator_of(tenant_id: UUID) -> Principal:
    """Return the operator as a principal of this tenant, without a key."""
    return Principal(tenant_id, scopes=frozenset({"admin"}))


def _digest_of(key: str) -> bytes:
    """Return a digest, so that the comparison takes equally long for keys of any length."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
