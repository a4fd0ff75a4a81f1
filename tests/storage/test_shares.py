"""Fair shares of connections and threads: every tenant finds one, and waits only in its own tenant's queue."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from random import Random
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.domain.outages import DatabaseUnavailable, TenantBusy
from app.providers.upstreams.resolving import CachedResolver
from app.shares import SharedThreads, TenantShares, acting_tenant
from app.storage.engine import Engine
from app.storage.uow import UnitOfWork
from tests.background import until
from tests.conftest import Database
from tests.storage.building import new_tenant

A, B, C = (uuid4() for _ in range(3))
LONG_S = 240.0
SIZE = 6


def taken(shares: TenantShares, tenant: UUID | None) -> int:
    """Take places for the tenant until it gets no more; return how many. It keeps them."""
    number = 0
    while shares.take_place(tenant):
        number += 1
    return number


@pytest.mark.parametrize(
    ("limit", "places"),
    [(1, [1, 0, 0, 0]), (2, [1, 0, 0, 1]), (3, [1, 1, 0, 1]), (4, [2, 1, 0, 1]), (10, [5, 2, 1, 1])],
)
def test_a_tenant_gets_about_half_of_what_is_free_and_one_place_stays_for_nobody(limit: int, places: list[int]) -> None:
    shares = TenantShares(limit, reserved=min(1, limit - 1))
    assert [taken(shares, tenant) for tenant in (A, B, C, None)] == places
    assert shares.in_use == sum(places)


async def waiter(shares: TenantShares, tenant: UUID | None, timeout_s: float = LONG_S) -> "asyncio.Task[None]":
    """Return a task that waits for a place."""
    task = asyncio.create_task(shares.wait_for_place(tenant, timeout_s))
    await settled()
    return task


async def settled() -> None:
    """Let every task run as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_holds_least_is_served_first_and_within_a_tenant_who_came_first() -> None:
    shares, served = TenantShares(8, reserved=1), list[str]()

    async def wait(name: str, tenant: UUID | None) -> None:
        await shares.wait_for_place(tenant, LONG_S)
        served.append(name)

    assert [taken(shares, tenant) for tenant in (A, B, C, None)] == [4, 2, 1, 1]
    tasks = []
    for name, tenant in (("a1", A), ("a2", A), ("new", uuid4()), ("nobody", None)):
        tasks.append(asyncio.create_task(wait(name, tenant)))
        await settled()
    assert (shares.waits, shares.waiting_count) == (4, 4)
    told = []
    for tenant in (A, A, None, B, B, C, None):
        shares.return_place(tenant)
        await settled()
        told.append(len(served))
    assert served == ["new", "nobody", "a1"]
    assert told == [0, 1, 2, 2, 2, 3, 3], "who has none goes first; A's own wait until it holds fewer than are free"
    shares.return_place(A)
    await asyncio.gather(*tasks)
    assert served[-1] == "a2"
    assert (shares.in_use, shares.waiting_count) == (4, 0)


async def test_who_no_longer_waits_keeps_no_place() -> None:
    shares = TenantShares(2, reserved=1)
    assert shares.take_place(A)
    first, second, third = [await waiter(shares, A) for _ in range(3)]
    second.cancel()
    await settled()
    assert shares.waiting_count == 2
    first.cancel()  # and gets a place before it notices
    shares.return_place(A)
    await settled()
    assert third.done(), "it went to who still waits"
    late = await waiter(shares, A)
    shares.return_place(A)
    late.cancel()  # after it got a place, before it could go on
    await settled()
    assert late.cancelled()
    assert (shares.in_use, shares.waiting_count) == (0, 0)
    assert vars(shares)["_held"] == vars(shares)["_queues"] == {}, "nothing is kept of a tenant at rest"


async def test_who_waited_too_long_is_told_whether_its_own_tenant_or_the_server_is_busy() -> None:
    shares = TenantShares(2, reserved=1)
    assert shares.take_place(A)
    with pytest.raises(TenantBusy):
        await shares.wait_for_place(A, 0.01)
    with pytest.raises(DatabaseUnavailable, match="Every connection") as told:
        await shares.wait_for_place(B, 0.01)
    assert told.value.code == "database_unavailable"
    assert shares.take_place(None)
    with pytest.raises(DatabaseUnavailable, match="Every connection"):
        await shares.wait_for_place(None, 0.01)
    assert (shares.in_use, shares.waiting_count) == (2, 0)


async def test_whatever_comes_and_goes_no_place_is_lost_and_no_rule_broken() -> None:
    chance, shares = Random(7), TenantShares(SIZE, reserved=1)
    tenants: list[UUID | None] = [A, B, C, None]
    holding: Counter[UUID | None] = Counter()

    async def come(tenant: UUID | None) -> None:
        if not shares.take_place(tenant):
            await shares.wait_for_place(tenant, LONG_S)
        holding[tenant] += 1
        assert holding.total() <= shares.in_use <= SIZE
        assert sum(held for who, held in holding.items() if who is not None) < SIZE, "one is nobody's"
        assert all(holding[who] <= SIZE // 2 for who in (A, B, C))
        try:
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
        finally:
            holding[tenant] -= 1
            shares.return_place(tenant)

    tasks = []
    for _ in range(2000):
        tasks.append(asyncio.create_task(come(chance.choice(tenants))))
        if chance.random() < 0.4:
            chance.choice(tasks[-20:]).cancel()
        if chance.random() < 0.3:
            await asyncio.sleep(0)
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(end) for end in ends} == {type(None), asyncio.CancelledError}
    assert (shares.in_use, shares.waiting_count) == (0, 0)
    assert taken(shares, A) == SIZE // 2


# --- on a real pool


@pytest.fixture
async def engine(database: Database) -> AsyncIterator[Engine]:
    """Return an engine of six connections."""
    engine = Engine(database.app, min_size=1, max_size=SIZE)
    yield engine
    await engine.close()


async def test_a_tenant_that_wants_every_connection_leaves_some_to_others_and_to_authentication(
    engine: Engine, superuser: asyncpg.Connection
) -> None:
    uow = UnitOfWork(engine)
    a, b = await new_tenant(uow), await new_tenant(uow)

    async def sleep() -> None:
        async with uow.read(a) as tx:
            await tx.fetchval("SELECT pg_advisory_xact_lock_shared(5)")

    async def asleep() -> bool:
        locked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
        return await superuser.fetchval(locked) == SIZE // 2

    await superuser.execute("SELECT pg_advisory_lock(5)")
    greedy = [asyncio.create_task(sleep()) for _ in range(20)]
    await until(asleep, "the tenant to hold its share", 30)
    async with asyncio.timeout(30):
        for _ in range(3):
            async with uow.write(b) as tx:
                assert await tx.fetchval("SELECT 1") == 1
            assert await uow.call(b, "SELECT $1::uuid AS tenant")
            assert await uow.call_definer("SELECT * FROM list_tenants()")
    assert not any(task.done() for task in greedy), "all of it while the greedy ones hold or wait"
    assert (engine.shares.in_use, engine.shares.waiting_count) == (SIZE // 2, 20 - SIZE // 2)
    for task in greedy[::2]:
        task.cancel()
    await superuser.execute("SELECT pg_advisory_unlock(5)")
    ends = await asyncio.gather(*greedy, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError, type(None)] * 10
    assert (engine.shares.in_use, engine.shares.waiting_count) == (0, 0)


async def work_for(threads: SharedThreads, tenant: UUID, work: Callable[[], None]) -> None:
    acting_tenant.set(tenant)
    await threads.run(work)


async def test_the_long_works_of_a_tenant_leave_a_thread_for_the_others() -> None:
    threads, go_on = SharedThreads(2, "test"), threading.Event()
    long = [asyncio.create_task(work_for(threads, A, lambda: go_on.wait(LONG_S) and None)) for _ in range(8)]
    await settled()
    async with asyncio.timeout(LONG_S):
        await work_for(threads, B, lambda: None)
    go_on.set()
    await asyncio.gather(*long)
    threads.stop()


async def test_tenants_take_turns_at_one_thread() -> None:
    threads, go_on, served = SharedThreads(1, "test"), threading.Event(), list[str]()
    first = asyncio.create_task(work_for(threads, A, lambda: go_on.wait(LONG_S) and None))
    await settled()
    works = [(A, "a2"), (A, "a3"), (B, "b1"), (B, "b2")]
    tasks = [asyncio.create_task(work_for(threads, tenant, partial(served.append, name))) for tenant, name in works]
    await settled()
    go_on.set()
    await asyncio.gather(first, *tasks)
    assert served == ["a2", "b1", "a3", "b2"]
    threads.stop()


async def test_a_work_keeps_its_thread_when_its_caller_has_gone() -> None:
    threads, go_on = SharedThreads(1, "test"), threading.Event()
    gone = asyncio.create_task(work_for(threads, A, lambda: go_on.wait(LONG_S) and None))
    await settled()
    gone.cancel()
    waiting = asyncio.create_task(work_for(threads, B, lambda: None))
    await settled()
    assert not waiting.done()
    go_on.set()
    async with asyncio.timeout(LONG_S):
        await waiting
    threads.stop()


async def test_names_that_hang_leave_threads_for_the_names_of_others() -> None:
    go_on = threading.Event()

    def look_up(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        if host.startswith("hangs"):
            go_on.wait(LONG_S)
        return [(None, None, None, "", ("192.0.2.1", 0))]

    async def find(tenant: UUID, host: str) -> Sequence[str]:
        acting_tenant.set(tenant)
        return await resolver.find_addresses(host)

    resolver = CachedResolver()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socket.getaddrinfo", look_up)
        hanging = [asyncio.create_task(find(A, f"hangs-{n}.example")) for n in range(20)]
        await settled()
        async with asyncio.timeout(LONG_S):
            assert await find(B, "answers.example") == ["192.0.2.1"]
        go_on.set()
        await asyncio.gather(*hanging)
    resolver.close()
