"""Start offsets of scheduled work. They spread the tenants over the period, so that not all start at once."""

import hashlib
from uuid import UUID


def offset_s(tenant_id: UUID, period_s: int) -> int:
    """Return the tenant's offset in whole seconds, from 0 to below `period_s`. It is the same on every machine and day.

    Raise ValueError if `period_s` is below 1.
    """
    if period_s < 1:
        raise ValueError("period_s must be at least 1")
    return int.from_bytes(hashlib.sha256(tenant_id.bytes).digest()) % period_s
