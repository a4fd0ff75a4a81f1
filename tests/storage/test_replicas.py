"""Reads on a streaming replica: never stale, and on the primary while the replica lags, fails or is none."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from urllib.parse import quote

import pytest

from app.domain.outages import TenantBusy
from app.domain.principal import Principal
from app.storage.engine import Engine
from app.storage.replicas import PrimaryPosition, Replica, Replicas
from app.storage.uow import UnitOfWork
from tests.conftest import Database
from tests.stalling_proxy import stalling
from tests.standby import LONG_S, StreamingPair, until
from tests.storage.building import journal_of, new_tenant, remembered

pytestmark = pytest.mark.xdist_group("replicas")
ON_REPLICA = "SELECT pg_is_in_recovery()"
NUMBERS = itertools.count()
COUNT = "SELECT count(*) FROM memories"
SLEEPERS = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


class Routed:
    """Units of work on a primary and its replicas, and a tenant."""

    def __init__(self, engine: Engine, replicas: Replicas) -> None:
        self.replicas = replicas
        self.uow = UnitOfWork(engine, replicas)
        self.tenant: Principal

    async def store(self) -> int:
        """Store a memory; return how many the tenant has."""
        await remembered(journal_of(self.uow), self.tenant, f"Maya has memory {next(NUMBERS)}.")
        async with self.uow.read(self.tenant) as tx:
            return int(await tx.fetchval(COUNT))

    async def read(self) -> tuple[bool, int]:
        """Read where the routing leads; return True for a replica, and the number of memories seen there."""
        async with self.uow.read_anywhere(self.tenant) as tx:
            return await tx.fetchval(ON_REPLICA), await tx.fetchval(COUNT)

    async def read_unchecked(self) -> int:
        """Return the number of memories on the replica, whatever it has replayed."""
        async with UnitOfWork(self.replicas.members[0].engine).read(self.tenant) as tx:
            return int(await tx.fetchval(COUNT))

    async def is_awake(self) -> bool:
        """Return True if no replica rests."""
        return all(member.rests_for is None for member in self.replicas.members)

    @property
    def resting(self) -> list[str | None]:
        """The reasons for which the replicas rest."""
        return [member.rests_for for member in self.replicas.members]


@asynccontextmanager
async def routed(
    pair: StreamingPair,
    *urls: str,
    wait_s: float = LONG_S,
    rest_s: float = 0.02,
    timeout_s: float = LONG_S,
    most: int = 8,
) -> AsyncIterator[Routed]:
    """Open units of work, by default with the standby as the only replica."""
    primary = pair.app_url(pair.source)
    engine = Engine(primary, min_size=1, max_size=8)
    members = [Replica(n, url, (1, most), timeout_s) for n, url in enumerate(urls or [pair.app_url(pair.copy)], 1)]
    way = Routed(engine, Replicas(primary, members, wait_s=wait_s, rest_s=rest_s))
    try:
        await way.replicas.open_replicas()
        way.tenant = await new_tenant(way.uow)
        yield way
    finally:
        await way.replicas.close()
        await engine.close()


@pytest.mark.long
async def test_reads_run_on_the_replica_with_all_that_was_acknowledged(pair: StreamingPair) -> None:
    async with routed(pair) as way:
        for _ in range(20):
            stored = await way.store()
            assert await way.read() == (True, stored)
        async with way.uow.calls_anywhere(way.tenant) as tx:
            assert await tx.fetchval(ON_REPLICA) is True
        async with way.uow.read(way.tenant) as tx:
            assert await tx.fetchval(ON_REPLICA) is False
        assert way.replicas.reads == {"replica": 21}
        assert way.replicas.bytes_behind(way.replicas.members[0]) == 0


async def test_a_read_waits_for_a_replica_that_lags_a_little(pair: StreamingPair) -> None:
    async with routed(pair) as way:
        before = await way.store()
        assert await way.read() == (True, before)
        async with pair.paused():
            stored = await way.store()
            reads = [asyncio.create_task(way.read()) for _ in range(4)]
            await way.store()
            assert await way.read_unchecked() == before, "the replay was to be paused"
            assert not any(read.done() for read in reads)
        assert {(True, stored), (True, stored + 1)} >= set(await asyncio.gather(*reads))


@pytest.mark.long
async def test_the_primary_answers_while_the_replica_lags(pair: StreamingPair) -> None:
    async with routed(pair, wait_s=0.2) as way:
        before = await way.store()
        assert await way.read() == (True, before)
        async with pair.paused():
            stored = await way.store()
            assert await way.read() == (False, stored)
            assert await way.read_unchecked() == before, "the replay was to be paused"
            assert way.resting == ["behind"]
            assert await way.read() == (False, stored)
            assert way.replicas.fallbacks == {"behind": 1, "resting": 1}
            [told] = (await way.replicas.list_faults()).values()
            assert "bytes of WAL" in told
        await until(way.is_awake)
        assert await way.read() == (True, stored)
        assert await way.replicas.list_faults() == {}


async def test_the_primary_answers_while_the_replica_is_down(pair: StreamingPair) -> None:
    async with routed(pair) as way:
        stored = await way.store()
        async with way.uow.read_anywhere(way.tenant) as tx:
            assert await tx.fetchval(ON_REPLICA) is True
            pair.stop_standby()
            assert await tx.fetchval(ON_REPLICA) is False, "the statement was to be repeated on the primary"
            assert await tx.fetchval(COUNT) == stored
        assert way.resting == ["unavailable"]
        assert await way.read() == (False, stored)
        async with routed(pair) as later:
            assert later.resting == ["unavailable"], "a server starts without its replica"
            pair.start_standby()
            for each in (way, later):
                await until(each.is_awake)
                assert (await each.read())[0] is True


@pytest.mark.long
async def test_a_replica_that_went_away_between_two_reads_costs_no_failure(pair: StreamingPair) -> None:
    async with routed(pair) as way:
        stored = await way.store()
        assert await way.read() == (True, stored)
        pair.stop_standby()
        try:
            assert await asyncio.gather(*[way.read() for _ in range(4)]) == [(False, stored)] * 4
        finally:
            pair.start_standby()
        await until(way.is_awake)


async def test_the_primary_answers_while_the_replica_hangs(pair: StreamingPair) -> None:
    async with stalling(pair.app_url(pair.copy)) as proxy, routed(pair, proxy.url, wait_s=0.2) as way:
        stored = await way.store()
        assert await way.read() == (True, stored)
        with proxy.stalled():
            stored = await way.store()
            assert await way.read() == (False, stored)
            assert way.resting == ["behind"]
        await until(way.is_awake)
        assert await way.read() == (True, stored)


async def test_a_read_that_replay_cancels_is_repeated_on_the_primary(pair: StreamingPair) -> None:
    async with routed(pair) as way, pair.on_primary() as primary, pair.on_standby() as standby:
        await primary.execute("CREATE TABLE held AS SELECT 1 AS x; GRANT SELECT ON held TO mnema_app")
        pause = "pg_sleep(CASE WHEN pg_is_in_recovery() THEN 60 ELSE 0 END)"

        async def read() -> bool:
            async with way.uow.read_anywhere(way.tenant) as tx:
                [row] = await tx.fetch(f"SELECT pg_is_in_recovery() AS there, {pause} FROM held")
                return bool(row["there"])

        reading = asyncio.create_task(read())
        await until(lambda: standby.fetchval(SLEEPERS))
        await primary.execute("ALTER TABLE held ADD COLUMN y int")
        assert await reading is False
        assert way.replicas.fallbacks == {"conflict": 1}
        assert way.resting == [None], "one long read does not stop the others"
        await primary.execute("DROP TABLE held")
        assert (await way.read())[0] is True


async def test_a_statement_that_takes_too_long_is_repeated_and_stops_no_other_read(pair: StreamingPair) -> None:
    async with routed(pair, timeout_s=0.5) as way:
        pause = "SELECT pg_is_in_recovery() AS there, pg_sleep(CASE WHEN pg_is_in_recovery() THEN 60 ELSE 0 END)"
        async with way.uow.read_anywhere(way.tenant) as tx:
            assert [row["there"] for row in await tx.fetch(pause)] == [False]
        assert way.replicas.fallbacks == {"timeout": 1}
        assert way.resting == [None]
        assert (await way.read())[0] is True


async def test_a_busy_tenant_neither_stops_the_replica_nor_moves_to_the_primary(pair: StreamingPair) -> None:
    async with routed(pair, timeout_s=0.5, most=2) as way:
        async with way.uow.read_anywhere(way.tenant) as tx:
            assert await tx.fetchval(ON_REPLICA) is True
            with pytest.raises(TenantBusy):
                await asyncio.create_task(way.read(), context=Context())
        assert way.resting == [None]
        assert way.replicas.fallbacks == {}
        assert (await way.read())[0] is True


async def test_a_statement_that_a_migration_outdated_ends_its_session_and_is_repeated(pair: StreamingPair) -> None:
    async with routed(pair, most=1) as way, pair.on_primary() as primary:
        await primary.execute("CREATE TABLE changing AS SELECT 1 AS x; GRANT SELECT ON changing TO mnema_app")

        async def read() -> tuple[bool, int]:
            async with way.uow.read_anywhere(way.tenant) as tx:
                [row] = await tx.fetch("SELECT pg_is_in_recovery() AS there, pg_backend_pid() AS pid, * FROM changing")
                return row["there"], row["pid"]

        there, session = await read()
        assert there is True
        await primary.execute("ALTER TABLE changing ADD COLUMN y int")
        assert (await read())[0] is False
        assert way.replicas.fallbacks == {"new_schema": 1}
        assert way.resting == [None]
        there, later = await read()
        assert there is True
        assert later != session, "a pooler would give the outdated session to the next client"
        await primary.execute("DROP TABLE changing")


async def test_tenants_are_isolated_on_the_replica(pair: StreamingPair) -> None:
    async with routed(pair) as way:
        stored = await way.store()
        other = await new_tenant(way.uow)
        async with way.uow.read_anywhere(other) as tx:
            assert (await tx.fetchval(ON_REPLICA), await tx.fetchval(COUNT)) == (True, 0)
        async with way.uow.calls_anywhere(other) as tx:
            assert await tx.fetchval(COUNT) == 0, "no tenant is bound outside a transaction"
        assert await way.read() == (True, stored)


async def test_a_write_on_a_replica_is_a_defect(pair: StreamingPair) -> None:
    async with routed(pair) as way:
        for open_ in (way.uow.read_anywhere, way.uow.calls_anywhere):
            with pytest.raises(RuntimeError, match="tried to write"):
                async with open_(way.tenant) as tx:
                    await tx.fetch("DELETE FROM memories RETURNING id")
        assert way.replicas.fallbacks == {}


async def test_replicas_take_turns(pair: StreamingPair) -> None:
    url = pair.app_url(pair.copy)
    async with routed(pair, url, url) as way:
        chosen = [await way.replicas.choose_replica() for _ in range(4)]
        assert [c.name for c in chosen if c is not None] == ["replica 2", "replica 1"] * 2


async def test_a_server_that_is_no_standby_answers_nothing(pair: StreamingPair) -> None:
    async with routed(pair, pair.app_url(pair.source), rest_s=LONG_S) as way:
        assert way.resting == ["promoted"]
        assert await way.read() == (False, 0)


async def test_a_server_that_is_no_replica_of_ours_is_told_and_left_alone(
    pair: StreamingPair, database: Database
) -> None:
    free = f"postgresql://postgres:{quote(pair.copy.password)}@{pair.copy.host}:{pair.copy.port}/mnema"
    wrong = pair.app_url(pair.copy).replace("mnema_app:", "mnema_app:x")
    async with routed(pair, free, wrong, database.app, rest_s=LONG_S) as way:
        assert way.resting == ["misconfigured"] * 3
        assert await way.read() == (False, 0)
        told = list((await way.replicas.list_faults()).values())
    for text, words in zip(told, ("can bypass row-level", "refuses this login", "is no replica of"), strict=True):
        assert text.startswith("MNEMA_READ_DATABASE_URL: ")
        assert words in text


async def test_a_question_under_way_answers_nobody_who_comes_later(pair: StreamingPair) -> None:
    engine = Engine(pair.app_url(pair.source), min_size=1, max_size=1)
    held = await (await engine.get_pool()).acquire()
    position = PrimaryPosition(engine, LONG_S)
    first = asyncio.create_task(position.read_index())
    await asyncio.sleep(0)  # its question waits for the connection
    later = [asyncio.create_task(position.read_index()) for _ in range(3)]
    await asyncio.sleep(0)
    async with pair.on_primary() as primary:
        await primary.execute("CREATE TABLE now_and_here (); DROP TABLE now_and_here")
    await (await engine.get_pool()).release(held)
    old, *new = [p.lsn for p in await asyncio.gather(first, *later)]
    assert len(set(new)) == 1, "all who waited share one question"
    assert new[0] >= old
    await engine.close()
