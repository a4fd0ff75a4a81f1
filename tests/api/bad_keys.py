"""Headers that authenticate nobody."""

from datetime import UTC, datetime, timedelta

from app.bootstrap import Application
from tests.factories import Caller


async def bad_headers(app: Application, caller: Caller) -> dict[str, list[tuple[bytes, bytes]]]:
    """Authorization headers that stand for nobody, by what is wrong with them."""
    tenant = caller.scope.tenant_id
    past = datetime.now(UTC) - timedelta(seconds=1)
    _, expired = await app.tenancy.tenants.create_key(tenant, "expired", ["admin"], expires_at=past)
    key, revoked = await app.tenancy.tenants.create_key(tenant, "revoked", ["admin"])
    await app.tenancy.tenants.revoke_key(tenant, key.id)
    values = {
        "garbage": f"Bearer {caller.key[:-1]}",
        "empty": "Bearer",
        "no scheme": caller.key,
        "another scheme": f"Basic {caller.key}",
        "mem0's scheme, garbage": f"Token {caller.key[:-1]}",
        "in the wrong case": f"Bearer {caller.key.swapcase()}",
        "endless": "Bearer " + "x" * 5000,
        "two keys": f"Bearer {caller.key} {caller.key}",
        "quoted": f"Bearer '{caller.key}'",
        "expired": f"Bearer {expired}",
        "revoked": f"Bearer {revoked}",
        "not ASCII": "Bearer \xff\xfe",
        "an injection": "Bearer ' OR 1=1 --",
    }
    return {"none": []} | {name: [(b"Authorization", value.encode("latin-1"))] for name, value in values.items()}
