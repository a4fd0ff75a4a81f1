"""The description of a person's own API key, as the API gives it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from mnema_client import AsyncMnema, AsyncMnemaOperator
from mnema_client.operator import tenant_page

OPERATOR_HOME = "/keys"
"""The only page that a session of the operator opens."""


@dataclass(frozen=True)
class PersonKey:
    """A key without its secret. `agents` None: bound to none; `categories` None: it may see every category.

    Without values: a key that could not be described, which allows nothing.
    """

    tenant: str = ""
    name: str = ""
    scopes: frozenset[str] = frozenset()
    agents: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None
    expires_at: datetime | None = None
    key_id: UUID | None = None
    is_operator: bool = False

    def allows(self, scope: str) -> bool:
        """Tell whether the key has this scope. The scope admin includes every other."""
        return scope in self.scopes or "admin" in self.scopes


async def describe_key(memory: AsyncMnema) -> PersonKey:
    """Return the description of the client's key. Raise MnemaError; Unauthenticated if the key is not valid."""
    key = await memory.describe_key()
    return PersonKey(
        tenant=key.tenant,
        name=key.name,
        scopes=frozenset(key.scopes),
        agents=None if key.agents is None else tuple(key.agents),
        categories=None if key.categories is None else tuple(key.categories),
        expires_at=key.expires_at,
        key_id=key.key_id,
    )


async def describe_operator(operator: AsyncMnemaOperator) -> PersonKey:
    """Return the description of the operator's key. Raise MnemaError; Unauthenticated if the key is not valid."""
    await operator.send(tenant_page(limit=1))
    return PersonKey(name="operator", is_operator=True)
