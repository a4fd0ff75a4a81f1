"""Embedding spaces: reports, and filling the space of a new model while servers use the old one."""

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
"""Failures in a row, without an embedded row between them, after which a run gives up."""
PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class SpaceReport:
    """The content of a space over all tenants.

    `embedded` counts the memories and store items (`items`) with a vector, `missing` those without. `indexed` counts
    vectors of memories in the approximate index, `past` the memories whose past of before the upgrade is not read yet.
    `size` is in bytes.
    """

    registered: RegisteredSpace
    memories: int
    items: int
    embedded: int
    indexed: int
    past: int
    size: int

    @property
    def missing(self) -> int:
        """Memories and store items without a vector in the space."""
        return self.memories + self.items - self.embedded


class Spaces:
    """The installation's embedding spaces. Rows are read tenant by tenant, with the tenant's rights."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow
        self._tenants = TenantStorage(uow)

    async def list_reports(self) -> list[SpaceReport]:
        """Return a report of every space, the oldest first."""
        return [await self._build_report(space) for space in await list_spaces(self._uow)]

    async def get_report(self, name: str) -> SpaceReport:
        """Return the report of the space with this name; raise NotFound."""
        return await self._build_report(await named_space(self._uow, name))

    async def active_report(self) -> SpaceReport | None:
        """Return the report of the active space, None if no space is active."""
        return next((report for report in await self.list_reports() if report.registered.active), None)

    async def count_past(self) -> int:
        """Return the number of memories whose past of before an upgrade is not read yet, in the active space."""
        active = [space.space.name for space in await list_spaces(self._uow) if space.active]
        vectors = [VectorStorage(self._uow, name) for name in active]
        principals = [principal async for principal in tenant_principals(self._tenants)]
        return sum([await one.count_past(principal) for one in vectors for principal in principals])

    async def delete_item_vectors(self, name: str) -> None:
        """Delete the vectors of store items from the space `name`."""
        async for principal in tenant_principals(self._tenants):
            await ItemVectorStorage(self._uow, name).delete_vectors(principal)

    async def _build_report(self, registered: RegisteredSpace) -> SpaceReport:
        name = registered.space.name
        vectors = VectorStorage(self._uow, name)
        item_vectors = ItemVectorStorage(self._uow, name)
        memories = items = embedded = indexed = past = 0
        async for principal in tenant_principals(self._tenants):
            counts = await vectors.count_vectors(principal)
            item_count, filled = await item_vectors.count_vectors(principal)
            memories += counts.memories
            items += item_count
            embedded += counts.vectors + filled
            indexed += counts.indexed
            past += await vectors.count_past(principal)
        return SpaceReport(registered, memories, items, embedded, indexed, past, await vectors.size_bytes())


@dataclass(slots=True)
class FillReport:
    """The result of a run over all tenants: rows embedded (memories and store items) and vectors indexed."""

    embedded: int = 0
    indexed: int = 0


class FillSpace:
    """The use-case that embeds every row without a vector in a space. A run may stop at any time and start again."""

    def __init__(
        self, tenants: TenantStorage, embed: EmbedMissing, wait: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._tenants = tenants
        self._embed = embed
        self._wait = wait

    async def count_missing(self) -> int:
        """Return how many memories and store items have no vector, over all tenants."""
        return sum([await self._embed.count_missing(principal) async for principal in tenant_principals(self._tenants)])

    async def fill_space(self, report: Callable[[int], None]) -> FillReport:
        """Fill the space tenant by tenant; call `report` with the size of each embedded batch.

        Retry a failing model with backoff. Raise EmbedderUnavailable or WriteContention after FAILURES failures
        without an embedded row between them.
        """
        filled = FillReport()
        failures = 0

        def count_batch(count: int) -> None:
            nonlocal failures
            failures = 0 if count else failures
            filled.embedded += count
            report(count)

        async for principal in tenant_principals(self._tenants):
            while True:
                try:
                    filled.indexed += (await self._embed.embed_all(principal, count_batch))["indexed"]
                    break
                except (EmbedderUnavailable, WriteContention):
                    failures += 1
                    if failures == FAILURES:
                        raise
                await self._wait(PAUSE_S * 2**failures)
        return filled

    async def fill_repeatedly(self, report: Callable[[int], None], every_s: float) -> None:
        """Fill the space every `every_s` seconds until cancelled, because servers of another model go on writing.

        Outages do not end it.
        """
        while True:
            with suppress(DatabaseUnavailable, EmbedderUnavailable, WriteContention):
                await self.fill_space(report)
            await self._wait(every_s)


async def tenant_principals(tenants: TenantStorage) -> AsyncIterator[Principal]:
    """Yield a principal for each tenant, for work over the whole installation."""
    for tenant in await tenants.list_tenants():
        yield Principal(tenant.id)
