"""The description of the caller's own key."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.domain.errors import NotFound
from app.domain.principal import Principal
from app.storage.operations.own_key import get_own_key
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class KeyDescription:
    """A key without its secret. `agents` None: bound to no agent; `categories` None: it may see every category."""

    tenant_id: UUID
    tenant: str
    key_id: UUID
    name: str
    scopes: list[str]
    agents: list[str] | None
    categories: list[str] | None
    expires_at: datetime | None


class DescribeKey:
    """The use-case that tells a key what it is, so that a program can show what it may do."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def describe_key(self, principal: Principal) -> KeyDescription:
        """Return the principal's key. Raise NotFound if it was deleted just now."""
        async with self._uow.read(principal) as tx:
            key = await get_own_key(tx, principal)
        if key is None or principal.key_id is None:
            raise NotFound("this key is not stored any more")
        return KeyDescription(
            tenant_id=principal.tenant_id,
            tenant=key.tenant,
            key_id=principal.key_id,
            name=key.name,
            scopes=sorted(principal.scopes),
            agents=None if principal.agents is None else sorted(principal.agents),
            categories=principal.category_list,
            expires_at=key.expires_at,
        )
