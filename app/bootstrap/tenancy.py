"""The builders of the capability `tenancy`: tenants, keys and limits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.adapters import build_shared_counters
from app.bootstrap.blobs import build_blobs
from app.bootstrap.clock import open_clock
from app.bootstrap.database import open_database
from app.bootstrap.parts import SharedParts
from app.bootstrap.policies import load_tenant_policies
from app.config.operator_key import read_operator_key
from app.config.settings import Settings
from app.storage.tenancy import tenant_removal
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.tenancy.limits import Limits
from app.usecases.tenancy.operators import Operators
from app.usecases.tenancy.tenants import Tenants


def build_tenancy(parts: SharedParts) -> tuple[Tenants, Limits]:
    """Build the use-cases of tenants and keys, and the limits that all replicas count together."""
    tenants = TenantStorage(parts.uow)
    counters = build_shared_counters(parts.settings, parts.worker)
    return (
        Tenants(tenants, parts.policies, parts.clock, parts.settings.key_cache_s),
        Limits(parts.policies.defaults.limits, counters, tenants.get_tenant_name, parts.access, parts.clock),
    )


def build_operators(parts: SharedParts, tenants: Tenants) -> Operators:
    """Build the operator's use-cases. Raise ConfigError for a key file that cannot be used."""
    key = read_operator_key(parts.settings.operator_key_file)
    return Operators(tenants, TenantStorage(parts.uow), key, parts.clock)


@asynccontextmanager
async def open_tenants(settings: Settings) -> AsyncIterator[Tenants]:
    """Open tenants and keys alone, for an operator's command. It needs the database, not the model."""
    async with open_database(settings) as uow:
        policies = await load_tenant_policies(settings, uow)
        yield Tenants(TenantStorage(uow), policies, await open_clock(uow), settings.key_cache_s)


async def remove_tenant(settings: Settings, admin_url: str, name_or_id: str) -> dict[str, int]:
    """Delete a tenant with all its rows; return the number of deleted rows by table.

    Raise NotFound for an unknown tenant, WrongState while somebody uses it, BlobStoreUnavailable if it has blobs in a
    bucket that does not answer or that the settings do not name.
    """
    async with open_database(settings) as uow:
        blobs = build_blobs(settings, uow)
        try:
            return await tenant_removal.remove_tenant(admin_url, name_or_id, settings.key_cache_s, blobs=blobs)
        finally:
            await blobs.close()
