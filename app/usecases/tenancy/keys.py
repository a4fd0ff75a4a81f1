"""The API keys of a tenant: list, create and revoke them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import structlog

from app.domain.errors import AgentNotAllowed, InvalidInput, ScopeRequired
from app.domain.ids import list_names
from app.domain.paging import Page, cut_page, decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.ports import Clock
from app.storage.tenancy.tenants import ApiKey, TenantStorage
from app.usecases.tenancy.tenants import SCOPES, Tenants

log = structlog.get_logger(__name__)


class ManageKeys:
    """The use-cases of a tenant's keys for a principal of scope `admin`.

    The log has a line `key_change` for each change by a key. A key never makes a key that may do more than itself, or
    that lasts longer.
    """

    def __init__(self, tenants: Tenants, storage: TenantStorage, clock: Clock) -> None:
        self._tenants = tenants
        self._storage = storage
        self._clock = clock

    async def list_keys(self, principal: Principal, cursor: str | None, limit: int) -> Page[ApiKey]:
        """Return a page of the tenant's keys, oldest first, revoked ones too. Raise InvalidCursor."""
        rows = await self._storage.page_keys(principal, decode_cursor(cursor), limit + 1)
        return cut_page(rows, limit, lambda key: encode_cursor((key.created_at, key.id)))

    async def create_key(
        self,
        principal: Principal,
        name: str,
        scopes: Sequence[str],
        agents: Sequence[str] | None,
        expires_at: datetime | None,
    ) -> tuple[ApiKey, str]:
        """Create a key; return it with its plain text, which is not stored.

        Raise ScopeRequired or AgentNotAllowed for more than the principal may do, InvalidInput, UnknownAgent, or
        Unauthenticated if the principal's key has ended.
        """
        _require_subset(principal, scopes, agents)
        if expires_at is not None and expires_at <= self._clock.now():
            raise InvalidInput("expires_at lies in the past")
        key, plain = await self._tenants.create_key(principal.tenant_id, name, scopes, agents, expires_at, by=principal)
        self._log_change("create_key", principal, key.id, scopes=list(key.scopes))
        return key, plain

    async def revoke_key(self, principal: Principal, key_id: UUID) -> tuple[str, ...]:
        """Revoke a key; return the clusters that could not be told, which refuse it later.

        Raise NotFound if the tenant has no such key or it is revoked already.
        """
        unreached = await self._tenants.revoke_key(principal.tenant_id, key_id, by=principal)
        self._log_change("revoke_key", principal, key_id)
        return unreached

    def _log_change(self, action: str, principal: Principal, key_id: UUID, **fields: object) -> None:
        """Log a change by a key. The operator's have lines of their own, `operator_change`."""
        if principal.key_id is not None:
            tenant = str(principal.tenant_id)
            by = str(principal.key_id)
            log.info("key_change", action=action, tenant=tenant, key_id=str(key_id), by=by, **fields)


def _require_subset(principal: Principal, scopes: Sequence[str], agents: Sequence[str] | None) -> None:
    """Raise ScopeRequired or AgentNotAllowed if a key would have more scopes or agents than the principal."""
    granted = frozenset(SCOPES) if "admin" in principal.scopes else principal.scopes
    if more := sorted(set(scopes) & set(SCOPES) - granted):
        raise ScopeRequired(f"this key has no scope {more[0]!r}; it may give: {list_names(granted)}")
    if principal.agents is not None and (agents is None or not principal.agents.issuperset(agents)):
        raise AgentNotAllowed(f"this key is bound to agents; it may bind a key to: {list_names(principal.agents)}")
