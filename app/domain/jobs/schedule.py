"""When a tenant's daily work starts: spread over the period, so that not all tenants start at once (SPEC §7)."""

import hashlib
from uuid import UUID


def offset_s(tenant_id: UUID, period_s: int) -> int:
    """Whole seconds from the start of each period, below `period_s`; the same on every machine and day."""
    if period_s < 1:
        raise ValueError("period_s must be at least 1")
    return int.from_bytes(hashlib.sha256(tenant_id.bytes).digest()) % period_s
