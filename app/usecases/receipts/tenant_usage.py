"""Usage of all tenants by day, for the operator."""

from dataclasses import dataclass
from uuid import UUID

from app.domain.errors import NotFound
from app.domain.paging import Page, UsagePlace, decode_usage_place, encode_usage_place
from app.domain.principal import Principal
from app.domain.receipts.usage import Usage, UsageFilter
from app.storage.tenancy.tenants import Tenant, TenantStorage
from app.usecases.receipts.usage import ReadUsage

TENANTS = 100
"""Tenants that one page of the usage of all tenants reads at most: those without usage must not make it slow."""


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """The usage of a tenant on a day."""

    tenant: Tenant
    usage: Usage


class ReadTenantUsage:
    """The operator's use-case: the usage of each tenant by day. The caller must be admitted as operator before."""

    def __init__(self, tenants: TenantStorage, usage: ReadUsage) -> None:
        self._tenants = tenants
        self._usage = usage

    async def list_usage(
        self, tenant_id: UUID | None, filters: UsageFilter, cursor: str | None, limit: int
    ) -> Page[TenantUsage]:
        """Return a page of at most `limit` days of tenants by name, the days newest first.

        A page may have fewer rows, or none, and be followed by another. `tenant_id` None: all tenants. Each tenant is
        read as itself, so row-level security keeps the tenants apart here too. Raise NotFound or InvalidCursor.
        """
        place = decode_usage_place(cursor)
        tenants = await self._next_tenants(tenant_id, place.behind)
        rows: list[TenantUsage] = []
        places: list[UsagePlace] = []
        behind = place.behind
        for tenant in tenants[:TENANTS]:
            before = place.day if tenant.id == place.tenant_id else None
            found = await self._usage.read_days(Principal(tenant.id), filters, before, limit + 1 - len(rows))
            rows += [TenantUsage(tenant, usage) for usage in found]
            places += [UsagePlace(behind, tenant.id, usage.day) for usage in found]
            if len(rows) > limit:
                return Page(rows[:limit], encode_usage_place(places[limit - 1]))
            behind = tenant.name
        return Page(rows, encode_usage_place(UsagePlace(behind)) if len(tenants) > TENANTS else None)

    async def _next_tenants(self, tenant_id: UUID | None, behind: str | None) -> list[Tenant]:
        """Return the tenants of a page by name, and one more if others follow."""
        if tenant_id is None:
            return await self._tenants.page_tenants(behind, TENANTS + 1)
        tenant = await self._tenants.get_tenant(tenant_id)
        if tenant is None:
            raise NotFound("no such tenant")
        return [tenant]
