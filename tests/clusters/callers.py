"""Keys of tenants that are at home in a given cluster."""

from uuid import uuid4

from app.bootstrap import Application
from app.domain.principal import Principal
from tests.factories import Caller


async def caller_in(app: Application, cluster: str) -> Caller:
    """Create a tenant that is at home in this cluster, and a key of it."""
    tenant = await app.tenancy.tenants.create_tenant(f"t-{uuid4()}", cluster)
    key, plain = await app.tenancy.tenants.create_key(tenant.id, "test", ["query", "write", "read_all", "admin"])
    return Caller(plain, Principal(tenant.id, key_id=key.id))
