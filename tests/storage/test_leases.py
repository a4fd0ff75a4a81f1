"""Without a live lease no unit of work begins, and none commits."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from app.domain.errors import Unauthenticated
from app.domain.principal import Principal
from app.storage.uow import UnitOfWork
from tests.factories import Caller


class EndingLease:
    """A lease that ends when it is told so."""

    ended = False

    def require_live(self) -> None:
        if self.ended:
            raise Unauthenticated()


def held_by(lease: EndingLease, caller: Caller) -> Principal:
    return Principal(caller.scope.tenant_id, lease=lease).writing_through("mirror")


async def enter(unit: AbstractAsyncContextManager[Any]) -> None:
    async with unit:
        pass


UNITS: list[Callable[[UnitOfWork, Principal], Awaitable[object]]] = [
    lambda uow, principal: enter(uow.read(principal)),
    lambda uow, principal: enter(uow.read_anywhere(principal)),
    lambda uow, principal: enter(uow.write(principal)),
    lambda uow, principal: enter(uow.calls(principal)),
    lambda uow, principal: enter(uow.calls_anywhere(principal)),
    lambda uow, principal: uow.call(principal, "SELECT $1::uuid"),
    lambda uow, principal: uow.call_anywhere(principal, "SELECT $1::uuid"),
]


@pytest.mark.parametrize("unit", UNITS)
async def test_no_unit_of_work_begins_without_a_live_lease(
    uow: UnitOfWork, caller: Caller, unit: Callable[[UnitOfWork, Principal], Awaitable[object]]
) -> None:
    lease = EndingLease()
    await unit(uow, held_by(lease, caller))
    lease.ended = True
    with pytest.raises(Unauthenticated):
        await unit(uow, held_by(lease, caller))


async def store_maya(uow: UnitOfWork, lease: EndingLease, principal: Principal) -> None:
    """Store a user in a transaction within which the lease ends."""
    async with uow.write(principal) as tx:
        insert = "INSERT INTO users (tenant_id, user_id) VALUES ($1, 'maya') RETURNING user_id"
        assert len(await tx.fetch(insert, principal.tenant_id)) == 1
        lease.ended = True


async def test_nothing_is_committed_without_a_live_lease(uow: UnitOfWork, caller: Caller) -> None:
    lease = EndingLease()
    principal = held_by(lease, caller)
    with pytest.raises(Unauthenticated):
        await store_maya(uow, lease, principal)
    lease.ended = False
    async with uow.read(principal) as tx:
        assert await tx.fetch("SELECT 1 FROM users WHERE user_id = 'maya'") == []
