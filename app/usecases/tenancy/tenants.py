"""Tenants and API keys, and who a key speaks for."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from app.config.loader import Policies
from app.domain.errors import ConflictingName, DuplicateText, InvalidInput, NotFound, UnknownAgent
from app.domain.ids import check_identifier
from app.domain.outages import ServerBusy
from app.domain.principal import Principal
from app.ports import Clock
from app.storage.tenancy.tenants import ApiKey, KeyOwner, Tenant, TenantStorage, hash_key

SCOPES = ("query", "write", "chat", "approve", "admin")
MAX_CACHED = 10_000
LOOKUPS = 2
"""Keys that are looked up at once of those that this process does not know."""
MAX_WAITING = 200
"""Requests that may wait for that."""


class Tenants:
    """Creates tenants and keys; turns a key into a Scope."""

    def __init__(self, storage: TenantStorage, policies: Policies, clock: Clock, key_cache_s: float) -> None:
        self._storage = storage
        self._policies = policies
        self._clock = clock
        self._ttl = key_cache_s
        self._cache: OrderedDict[bytes, tuple[float, Principal | None]] = OrderedDict()
        self._lookups = asyncio.Semaphore(LOOKUPS)
        self._waiting = 0

    async def authenticate(self, key: str) -> Principal | None:
        """The key's scope, or None. Raises ServerBusy while too many keys are looked up that nobody knows.

        Either is remembered for `key_cache_s` seconds from when it was asked for, so a revocation takes at most that
        long, and not beyond the key's expiry.
        """
        digest, asked = hash_key(key), time.monotonic()
        cached = self._cache.get(digest)
        if cached and cached[0] > asked:
            return cached[1]
        if cached and cached[1]:
            owner = await self._storage.find_key_owner(key)
        else:
            owner = await self._look_up(key)
        scope = None if owner is None else self._build_principal(owner)
        self._cache.pop(digest, None)
        self._cache[digest] = (asked + self._cache_seconds(owner.expires_at if owner else None), scope)
        while len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)
        return scope

    async def _look_up(self, key: str) -> KeyOwner | None:
        """Whose key it is, of one that was not known lately: guesses get few connections, and no queue without end."""
        if self._waiting >= MAX_WAITING:
            raise ServerBusy("too many unknown API keys are looked up")
        self._waiting += 1
        try:
            async with self._lookups:
                return await self._storage.find_key_owner(key)
        finally:
            self._waiting -= 1

    def _build_principal(self, owner: KeyOwner) -> Principal:
        return Principal(
            tenant_id=owner.tenant_id,
            key_id=owner.key_id,
            scopes=owner.scopes,
            agents=None if owner.agents is None else frozenset(owner.agents),
            categories=None if owner.agents is None else self._policies.categories.visible_to(owner.agents),
            agent=owner.agents[0] if owner.agents and len(owner.agents) == 1 else None,
        )

    def _cache_seconds(self, expires_at: datetime | None) -> float:
        """For how many seconds a key's scope may be remembered."""
        if expires_at is None:
            return self._ttl
        return min(self._ttl, (expires_at - self._clock.now()).total_seconds())

    async def list_tenants(self) -> list[Tenant]:
        """All tenants."""
        return await self._storage.list_tenants()

    async def find_tenant(self, name_or_id: str) -> Tenant:
        """The tenant of this name or id; raises NotFound."""
        for tenant in await self._storage.list_tenants():
            if name_or_id in (tenant.name, str(tenant.id)):
                return tenant
        raise NotFound(f"no tenant {name_or_id!r}")

    async def create_tenant(self, name: str) -> Tenant:
        """A new tenant; raises ConflictingName."""
        try:
            return await self._storage.create_tenant(check_identifier(name))
        except DuplicateText as error:
            raise ConflictingName(f"a tenant named {name!r} exists") from error

    async def create_key(
        self,
        tenant_id: UUID,
        name: str,
        scopes: Iterable[str],
        agents: Sequence[str] | None = None,
        expires_at: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key and its plain text, shown once. Raises InvalidInput, UnknownAgent."""
        chosen = list(dict.fromkeys(scopes))
        if not chosen or (unknown := set(chosen) - set(SCOPES)):
            raise InvalidInput(
                f"scopes are {', '.join(SCOPES)}; got {', '.join(sorted(unknown if chosen else {'none'}))}"
            )
        for agent in agents or ():
            if agent not in self._policies.categories.allowlists:
                raise UnknownAgent(f"no allowlist for agent {agent!r}")
        if agents == []:
            raise InvalidInput("agents: name at least one; a key of none would be bound to nobody")
        if agents and "admin" in chosen:
            raise InvalidInput("an admin key cannot be bound to agents")
        return await self._storage.create_key(Principal(tenant_id), check_identifier(name), chosen, agents, expires_at)

    async def list_keys(self, tenant_id: UUID) -> list[ApiKey]:
        """The tenant's keys, without their text."""
        return await self._storage.list_keys(Principal(tenant_id))

    async def revoke_key(self, tenant_id: UUID, key_id: UUID) -> None:
        """Revoke a key; raises NotFound."""
        if not await self._storage.revoke_key(Principal(tenant_id), key_id):
            raise NotFound("no such key, or it is revoked already")
