"""Tenants and API keys, and the authentication of a key."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import (
    InvalidInput,
    Unauthenticated,
    UnknownAgent,
)
from app.domain.ids import check_identifier
from app.domain.outages import DatabaseUnavailable, ServerBusy
from app.domain.principal import READ_ALL, Lease, Principal
from app.ports import Clock
from app.storage.tenancy.tenants import ApiKey, KeyOwner, TenantStorage, hash_key
from app.usecases.tenancy.directory import TenantDirectory

SCOPES = ("query", "write", "chat", "approve", READ_ALL, "admin")
KEY_ENDED: Final = "The API key was revoked, or expired, while the request was under way."
MAX_CACHED = 10_000
LOOKUPS = 2
"""Maximum of concurrent lookups of keys that this process does not know."""
MAX_WAITING = 200
"""Maximum of requests that wait for such a lookup."""


class _CachedKey(NamedTuple):
    """The principal of a key without its categories (None: not valid).

    `fresh_until`: until then it is not looked up again. `valid_until`: when the key expires.
    """

    fresh_until: float
    valid_until: float
    principal: Principal | None


class KeyLease:
    """The Lease on one key. It is live until this process knows that the key is not valid any more."""

    __slots__ = ("_cache", "_digest", "_is_over")

    def __init__(self, cache: Mapping[bytes, _CachedKey], digest: bytes) -> None:
        self._cache = cache
        self._digest = digest
        self._is_over = False

    def require_live(self) -> None:
        """Raise Unauthenticated if the key is known to be revoked or expired. It asks nobody."""
        cached = self._cache.get(self._digest)
        if cached is not None and (cached.principal is None or time.monotonic() >= cached.valid_until):
            self._is_over = True  # also when the cache has room for it no longer
        if self._is_over:
            raise Unauthenticated(KEY_ENDED)


class Tenants(TenantDirectory):
    """The directory, the creation of keys, and a cache of authenticated keys."""

    def __init__(self, storage: TenantStorage, policies: TenantPolicies, clock: Clock, key_cache_s: float) -> None:
        super().__init__(storage)
        self._policies = policies
        self._clock = clock
        self._ttl = key_cache_s
        self._cache: OrderedDict[bytes, _CachedKey] = OrderedDict()
        self._lookups = asyncio.Semaphore(LOOKUPS)
        self._waiting = 0

    async def authenticate(self, key: str, grace_s: float = 0.0) -> Principal | None:
        """Return the key's principal with a lease on it, None if the key is not valid.

        Raise ServerBusy if too many lookups wait. The result is cached for `key_cache_s` seconds, but not beyond the
        key's expiry. A revocation takes effect after that time at most. While the database is away, the last result
        holds for `grace_s` seconds more.
        """
        digest = hash_key(key)
        started = time.monotonic()
        cached = self._cache.get(digest)
        if cached and cached.fresh_until > started:
            return self._with_categories(cached.principal)
        try:
            if cached and cached.principal:
                owner = await self._storage.find_key_owner(key, cached.principal.tenant_id)
            else:
                owner = await self._look_up(key)
        except DatabaseUnavailable:
            if cached and time.monotonic() < min(cached.fresh_until + grace_s, cached.valid_until):
                return self._with_categories(cached.principal)
            raise
        principal = None if owner is None else _build_principal(owner, KeyLease(self._cache, digest))
        left_s = self._seconds_left(owner.expires_at if owner else None)
        self._cache.pop(digest, None)
        self._cache[digest] = _CachedKey(started + min(self._ttl, left_s), started + left_s, principal)
        while len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)
        return self._with_categories(principal)

    async def _look_up(self, key: str) -> KeyOwner | None:
        """Return the owner of a key that is not cached. Guessed keys get few connections and a bounded queue."""
        if self._waiting >= MAX_WAITING:
            raise ServerBusy("too many lookups of unknown API keys wait; try again")
        self._waiting += 1
        try:
            async with self._lookups:
                return await self._storage.find_key_owner(key)
        finally:
            self._waiting -= 1

    def _with_categories(self, principal: Principal | None) -> Principal | None:
        """Return the principal with the categories that its agents may see now: they are not cached with the key."""
        if principal is None or principal.agents is None:
            return principal
        return replace(principal, categories=self._policies.of(principal).categories.visible_to(principal.agents))

    def _seconds_left(self, expires_at: datetime | None) -> float:
        """Return the seconds until a key expires."""
        return math.inf if expires_at is None else (expires_at - self._clock.now()).total_seconds()

    async def create_key(
        self,
        tenant_id: UUID,
        name: str,
        scopes: Iterable[str],
        agents: Sequence[str] | None = None,
        expires_at: datetime | None = None,
        by: Principal | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key and return it with its plain text, which is not stored.

        `agents` None: the key is not bound to agents. `by`: whose key makes it. Raise InvalidInput, UnknownAgent for an
        agent without allowlist, or Unauthenticated if the key of `by` has ended.
        """
        chosen = list(dict.fromkeys(scopes))
        if not chosen:
            raise InvalidInput(f"no scope given; use one or more of: {', '.join(SCOPES)}")
        if unknown := set(chosen) - set(SCOPES):
            names = ", ".join(map(repr, sorted(unknown)))
            raise InvalidInput(f"unknown scope {names}; use one or more of: {', '.join(SCOPES)}")
        for agent in agents or ():
            if agent not in self._policies.of_tenant(tenant_id).categories.allowlists:
                raise UnknownAgent(f"no allowlist for agent {agent!r}")
        if agents == []:
            raise InvalidInput("agents is empty; name at least one agent, or leave agents out for an unbound key")
        if agents and "admin" in chosen:
            raise InvalidInput("an admin key cannot be bound to agents")
        maker = by or Principal(tenant_id)
        return await self._storage.create_key(maker, check_identifier(name), chosen, agents, expires_at)


def _build_principal(owner: KeyOwner, lease: Lease) -> Principal:
    """Return the principal of a key without its categories."""
    return Principal(
        tenant_id=owner.tenant_id,
        key_id=owner.key_id,
        scopes=owner.scopes,
        agents=None if owner.agents is None else frozenset(owner.agents),
        agent=owner.agents[0] if owner.agents and len(owner.agents) == 1 else None,
        lease=lease,
    )
