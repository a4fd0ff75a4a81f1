"""The builders of the capability `tenancy`: tenants, keys and limits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.bootstrap.adapters import build_shared_counters
from app.bootstrap.blobs import build_blobs
from app.bootstrap.database import open_clock, open_database, read_clusters
from app.bootstrap.parts import SharedParts
from app.bootstrap.policies import build_rules, load_tenant_policies
from app.config.operator_key import read_operator_key
from app.config.settings import Settings
from app.storage.tenancy import tenant_removal
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.clusters.places import TenantPlaces
from app.usecases.tenancy.keys import ManageKeys
from app.usecases.tenancy.limits import Limits
from app.usecases.tenancy.operators import Operators
from app.usecases.tenancy.rules import ManageRules
from app.usecases.tenancy.tenants import Tenants


@dataclass(frozen=True, slots=True)
class TenancyUseCases:
    """The use-cases of tenants, keys and rules, and the limits that all replicas count together."""

    tenants: Tenants
    limits: Limits
    rules: ManageRules
    operators: Operators
    keys: ManageKeys
    places: TenantPlaces


def build_tenancy(parts: SharedParts) -> TenancyUseCases:
    """Build the use-cases of the capability. Raise ConfigError for an operator's key file that cannot be used."""
    storage = TenantStorage(parts.uow)
    counters = build_shared_counters(parts.settings, parts.worker)
    tenants = Tenants(storage, parts.policies, parts.clock, parts.settings.key_cache_s)
    keys = ManageKeys(tenants, storage, parts.clock)
    key = read_operator_key(parts.settings.operator_key_file)
    return TenancyUseCases(
        tenants=tenants,
        limits=Limits(parts.policies.defaults.limits, counters, storage.get_tenant_name, parts.access, parts.clock),
        rules=build_rules(parts),
        operators=Operators(tenants, storage, key, keys),
        keys=keys,
        places=TenantPlaces(parts.database.homes, parts.settings.tenant_moves_per_day),
    )


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
    clusters = {name: urls.admin_database_url.get_secret_value() for name, urls in read_clusters(settings).items()}
    async with open_database(settings) as uow:
        blobs = build_blobs(settings, uow)
        try:
            return await tenant_removal.remove_tenant(
                next(iter(clusters.values()), admin_url),
                name_or_id,
                settings.key_cache_s,
                blobs=blobs,
                clusters=clusters,
            )
        finally:
            await blobs.close()
