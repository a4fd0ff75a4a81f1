"""Another embedding model, online: its space is filled while servers go on with theirs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from app.domain.outages import DatabaseUnavailable, EmbedderUnavailable, WriteContention
from app.domain.principal import Principal
from app.storage.agent_state.item_vectors import ItemVectorStorage
from app.storage.operations.spaces import RegisteredSpace, list_spaces, named_space
from app.storage.operations.vectors import VectorStorage
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.operations.embed_missing import EmbedMissing

FAILURES = 5
"""So often in a row nothing is embedded before a run gives up: endpoints have bad minutes."""
PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class SpaceReport:
    """What a space holds, of all tenants: of `memories` and agents' values (`items`) some are `embedded`, the others
    `missing`; `indexed`: vectors of memories in the approximate index; `size` in bytes."""

    registered: RegisteredSpace
    memories: int
    items: int
    embedded: int
    indexed: int
    size: int

    @property
    def missing(self) -> int:
        """Memories and agents' values that have no vector in it."""
        return self.memories + self.items - self.embedded


class Spaces:
    """The installation's embedding spaces. Rows are read tenant by tenant, as the tenant."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow
        self._tenants = TenantStorage(uow)

    async def list_reports(self) -> list[SpaceReport]:
        """Every space, the oldest first."""
        return [await self._build_report(one) for one in await list_spaces(self._uow)]

    async def get_report(self, name: str) -> SpaceReport:
        """One; raises NotFound."""
        return await self._build_report(await named_space(self._uow, name))

    async def active_report(self) -> SpaceReport | None:
        """The active one."""
        return next((report for report in await self.list_reports() if report.registered.active), None)

    async def delete_item_vectors(self, name: str) -> None:
        """Remove the vectors of agents' values from the space."""
        async for scope in tenant_principals(self._tenants):
            await ItemVectorStorage(self._uow, name).delete_vectors(scope)

    async def _build_report(self, one: RegisteredSpace) -> SpaceReport:
        vectors, items = VectorStorage(self._uow, one.space.name), ItemVectorStorage(self._uow, one.space.name)
        memories = items_kept = embedded = indexed = 0
        async for scope in tenant_principals(self._tenants):
            counts, (kept, filled) = await vectors.count_vectors(scope), await items.count_vectors(scope)
            memories += counts.memories
            items_kept += kept
            embedded += counts.vectors + filled
            indexed += counts.indexed
        return SpaceReport(one, memories, items_kept, embedded, indexed, await vectors.size_bytes())


@dataclass(slots=True)
class FillReport:
    """What a run did, of all tenants: memories and agents' values embedded, vectors put into the index."""

    embedded: int = 0
    indexed: int = 0


class FillSpace:
    """Embeds all that has no vector in a space. What is missing is looked up anew, so it can end at any time."""

    def __init__(
        self, tenants: TenantStorage, embed: EmbedMissing, wait: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._tenants = tenants
        self._embed = embed
        self._wait = wait

    async def count_missing(self) -> int:
        """How much there is to do."""
        return sum([await self._embed.count_missing(scope) async for scope in tenant_principals(self._tenants)])

    async def fill_space(self, told: Callable[[int], None]) -> FillReport:
        """Tenant by tenant; `told` hears how many each batch embedded.

        A model that fails is asked again after a growing pause. Raises EmbedderUnavailable or WriteContention when it
        fails FAILURES times without having embedded anything in between.
        """
        filled, failures = FillReport(), 0

        def count_batch(done: int) -> None:
            nonlocal failures
            failures = 0 if done else failures
            filled.embedded += done
            told(done)

        async for scope in tenant_principals(self._tenants):
            while True:
                try:
                    filled.indexed += (await self._embed.embed_all(scope, count_batch))["indexed"]
                    break
                except (EmbedderUnavailable, WriteContention):
                    failures += 1
                    if failures == FAILURES:
                        raise
                await self._wait(PAUSE_S * 2**failures)
        return filled

    async def fill_repeatedly(self, told: Callable[[int], None], every_s: float) -> None:
        """Again and again, until it is cancelled: servers of another model go on writing, and this one may be away."""
        while True:
            with suppress(DatabaseUnavailable, EmbedderUnavailable, WriteContention):
                await self.fill_space(told)
            await self._wait(every_s)


async def tenant_principals(tenants: TenantStorage) -> AsyncIterator[Principal]:
    """Each tenant's."""
    for tenant in await tenants.list_tenants():
        yield Principal(tenant.id)
