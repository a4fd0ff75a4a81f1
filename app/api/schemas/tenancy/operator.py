"""Conversion of a tenant's usage to its body."""

from mnema_wire import operator as wire

from app.usecases.receipts.tenant_usage import TenantUsage


def tenant_usage_body(row: TenantUsage) -> wire.TenantUsage:
    """Return the body for a row."""
    counts = {name: getattr(row.usage, name) for name in ("day", "queries", "tokens", "writes", "model_tokens")}
    return wire.TenantUsage(tenant_id=row.tenant.id, tenant=row.tenant.name, **counts)
