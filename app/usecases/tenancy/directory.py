"""The tenants of an installation and the keys that they have."""

from uuid import UUID

from app.domain.errors import ConflictingName, DuplicateText, NotFound, UnknownProject
from app.domain.ids import check_identifier
from app.domain.principal import Principal
from app.storage.tenancy.tenants import ApiKey, Tenant, TenantStorage


class TenantDirectory:
    """The use-cases of tenants and keys that need no policies."""

    def __init__(self, storage: TenantStorage) -> None:
        self._storage = storage

    async def list_tenants(self) -> list[Tenant]:
        """Return all tenants of the installation."""
        return await self._storage.list_tenants()

    async def find_tenant(self, name_or_id: str) -> Tenant:
        """Return the tenant with this name or id; raise NotFound."""
        for tenant in await self._storage.list_tenants():
            if name_or_id in (tenant.name, str(tenant.id)):
                return tenant
        raise NotFound(f"no tenant {name_or_id!r}")

    async def require_project(self, principal: Principal, project: str) -> None:
        """Raise UnknownProject unless `project` is the id or the name of the principal's own tenant."""
        if project == str(principal.tenant_id) or project == await self._storage.get_tenant_name(principal):
            return
        raise UnknownProject(f"no project {project!r}; project_id must be the id or the name of this key's tenant")

    async def create_tenant(self, name: str, cluster: str | None = None, region: str | None = None) -> Tenant:
        """Create a tenant, in the named cluster or in one of the region, to which it is then bound.

        Raise ConflictingName if the name is taken, InvalidInput if it is no identifier, or if there is no such cluster
        or region.
        """
        try:
            return await self._storage.create_tenant(check_identifier(name), cluster, region)
        except DuplicateText as error:
            raise ConflictingName(f"a tenant named {name!r} exists") from error

    async def list_keys(self, tenant_id: UUID) -> list[ApiKey]:
        """Return the tenant's keys, without their plain text."""
        return await self._storage.list_keys(Principal(tenant_id))

    async def revoke_key(self, tenant_id: UUID, key_id: UUID, by: Principal | None = None) -> tuple[str, ...]:
        """Revoke a key; return the clusters that could not be told, which refuse it later.

        `by`: whose key does it. Raise NotFound if there is no such key or it is revoked already.
        """
        revocation = await self._storage.revoke_key(by or Principal(tenant_id), key_id)
        if not revocation.was_valid:
            raise NotFound("no such key, or it is revoked already")
        return revocation.unreached
