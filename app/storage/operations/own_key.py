"""Reading the API key of a request."""

from dataclasses import dataclass
from datetime import datetime

from app.domain.principal import Principal
from app.storage.uow import ReadTx

_OWN = """
SELECT t.name AS tenant, k.name, k.expires_at FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
WHERE k.tenant_id = $1 AND k.id = $2
"""


@dataclass(frozen=True, slots=True)
class OwnKey:
    """The names of an API key and its tenant, and when the key expires."""

    tenant: str
    name: str
    expires_at: datetime | None


async def get_own_key(tx: ReadTx, principal: Principal) -> OwnKey | None:
    """Return the principal's key, None if it is not stored any more."""
    row = await tx.fetchrow(_OWN, principal.tenant_id, principal.key_id)
    return OwnKey(**dict(row)) if row else None
