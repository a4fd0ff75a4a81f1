"""Units of work at each tenant's home: the same interface as those of one database, over several clusters."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar
from uuid import UUID

from app.domain.errors import MnemaError, NotFound
from app.domain.outages import DatabaseUnavailable, TenantMoving
from app.domain.principal import Principal
from app.storage.clusters.homes import Homes
from app.storage.uow import ReadTx, Row, UnitOfWork, WriteTx

T = TypeVar("T")

MOVE_S: Final = 2.0
"""Seconds that a transaction waits for the new home of a tenant that has left the old one."""
_POLL_S: Final = 0.02


class ClusterUnitOfWork(UnitOfWork):
    """Transactions of a tenant run where it is at home; what has no tenant runs in any cluster that answers.

    A transaction that begins while the tenant moves begins once more at its new home, before the caller's first
    statement. A single statement is repeated there. Raise TenantMoving if no home is known in time.
    """

    def __init__(self, homes: Homes) -> None:
        self.homes = homes

    @property
    def parts(self) -> Mapping[str, UnitOfWork]:
        """The units of work of each cluster by its name. They serve tenants that are at home there, and definers."""
        return self.homes.parts

    @property
    def directory(self) -> UnitOfWork:
        """The units of work where tenants and keys are written."""
        return self.homes.directory

    @asynccontextmanager
    async def read(self, principal: Principal, *, timeout_s: float | None = None) -> AsyncIterator[ReadTx]:
        """Open a read-only transaction of one tenant."""
        async with self._at_home(principal, lambda part: part.read(principal, timeout_s=timeout_s)) as tx:
            yield tx

    @asynccontextmanager
    async def read_anywhere(self, principal: Principal, *, timeout_s: float | None = None) -> AsyncIterator[ReadTx]:
        """Open a read-only transaction on a replica of the tenant's home, or there."""
        async with self._at_home(principal, lambda part: part.read_anywhere(principal, timeout_s=timeout_s)) as tx:
            yield tx

    @asynccontextmanager
    async def write(self, principal: Principal, *, timeout_s: float | None = None) -> AsyncIterator[WriteTx]:
        """Open a read-write transaction of one tenant."""
        async with self._at_home(principal, lambda part: part.write(principal, timeout_s=timeout_s)) as tx:
            yield tx

    @asynccontextmanager
    async def calls(self, principal: Principal) -> AsyncIterator[ReadTx]:
        """Yield a connection on which each statement is a transaction of its own."""
        async with self._at_home(principal, lambda part: part.calls(principal)) as tx:
            yield tx

    @asynccontextmanager
    async def calls_anywhere(self, principal: Principal) -> AsyncIterator[ReadTx]:
        """Yield statements that are transactions of their own, on a replica of the tenant's home, or there."""
        async with self._at_home(principal, lambda part: part.calls_anywhere(principal)) as tx:
            yield tx

    async def call(self, principal: Principal, statement: str, *args: Any) -> list[Row]:
        """Run one statement as a transaction of its own."""
        search = _HomeSearch(self.homes, principal.tenant_id)
        while True:
            part = await search.find_next()
            try:
                return await part.call(principal, statement, *args)
            except TenantMoving:
                continue

    async def call_definer(self, statement: str, *args: Any) -> Sequence[Row]:
        """Call a cross-tenant function in the first cluster that answers. Each has the directory and the schema."""
        return await self.homes.ask_any(lambda part: part.call_definer(statement, *args))

    async def call_definer_for(self, tenant_id: UUID | None, statement: str, *args: Any) -> Sequence[Row]:
        """Call a cross-tenant function where this tenant is at home, else in the first cluster that answers."""
        first = None if tenant_id is None else self.homes.known_home(tenant_id)
        return await self.homes.ask_any(lambda part: part.call_definer(statement, *args), first)

    async def call_everywhere(self, statement: str, *args: Any) -> Sequence[Row]:
        """Call a cross-tenant function in all clusters at once; return the rows of those that answer in time.

        Raise DatabaseUnavailable if none does.
        """
        found = await self.homes.ask_each(lambda part: part.call_definer(statement, *args))
        answers = [answer for answer in found.values() if not isinstance(answer, MnemaError)]
        if not answers:
            raise DatabaseUnavailable("no cluster answers; try again")
        return [row for rows in answers for row in rows]

    @asynccontextmanager
    async def _at_home(
        self, principal: Principal, begin: Callable[[UnitOfWork], AbstractAsyncContextManager[T]]
    ) -> AsyncIterator[T]:
        """Begin at the tenant's home. Only the beginning is repeated: the block runs once."""
        search = _HomeSearch(self.homes, principal.tenant_id)
        async with AsyncExitStack() as stack:
            while True:
                part = await search.find_next()
                try:
                    tx = await stack.enter_async_context(begin(part))
                except TenantMoving:
                    continue
                break
            yield tx


class _HomeSearch:
    """The search for the home of one tenant: what is known first, then what the directory says until it is right."""

    def __init__(self, homes: Homes, tenant_id: UUID) -> None:
        self._homes = homes
        self._tenant_id = tenant_id
        self._until = 0.0
        self._tries = 0

    async def find_next(self) -> UnitOfWork:
        """Return the next cluster to try. Raise NotFound for no tenant, TenantMoving after MOVE_S seconds."""
        self._tries += 1
        if self._tries == 1 and (name := self._homes.known_home(self._tenant_id)) is not None:
            return self._homes.part_of(name)
        if self._tries == 2:
            self._until = time.monotonic() + MOVE_S
        elif self._tries > 2:
            if time.monotonic() > self._until:
                raise TenantMoving()
            await asyncio.sleep(_POLL_S)
        if (place := await self._homes.find_place(self._tenant_id)) is None:
            raise NotFound("no such tenant")
        part = self._homes.part_of(place.cluster)
        if self._tries > 1:  # a new tenant whose cluster heard of it late
            await self._homes.settle_tenant(self._tenant_id, place.cluster)
        return part
