"""Epochs: a copy of the database counts its transactions behind those of the original."""

from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest

from app.config.loader import load_policies
from app.config.tenant_policies import TenantPolicies
from app.domain.epochs import ChangePosition, Stamp
from app.domain.errors import CursorOfOtherDatabase
from app.domain.memory.change_feed import ChangeFilter, ChangePage
from app.domain.principal import Principal
from app.storage.engine import Engine
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.storage.memory.change_feed import ChangeFeedStorage
from app.storage.tenancy.configs import TenantConfigStorage
from app.storage.uow import UnitOfWork
from app.usecases.tenancy.refresh import RefreshRules
from tests.background import until
from tests.conftest import Database
from tests.storage.building import creation

EPOCHS = "SELECT number, id, database FROM epochs ORDER BY number"
MOVED = "SET session_replication_role = replica; UPDATE epochs SET database = 'of another cluster'"
"""A statement that makes the database look like a restored dump of another one."""


@pytest.fixture
async def superuser(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Return a connection that may forge what a restore leaves behind."""
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


def ids_of(page: ChangePage) -> list[str]:
    """Return the ids of the memories that changed."""
    return [event.memory_id for event in page.events]


async def connect(database: Database, count: int = 1) -> None:
    """Open connections of a server at the same time, and close them."""
    engine = Engine(database.app, min_size=count, max_size=count)
    await engine.get_pool()
    await engine.close()


async def test_the_first_connection_to_a_copy_begins_its_epoch(
    database: Database, superuser: asyncpg.Connection
) -> None:
    [original] = await superuser.fetch(EPOCHS)  # the test's database is a copy of the template
    await connect(database, 8)
    await connect(database)
    kept, copy = await superuser.fetch(EPOCHS)
    assert kept == original
    assert copy["number"] == original["number"] + 1
    assert (copy["id"] != original["id"], copy["database"] != original["database"]) == (True, True)
    await superuser.execute(MOVED)
    await connect(database, 8)
    assert [row["number"] for row in await superuser.fetch(EPOCHS)] == [1, 2, 3]


async def test_stamps_rise_into_the_next_epoch_and_are_never_shared(
    database: Database, superuser: asyncpg.Connection
) -> None:
    before = await superuser.fetchval("SELECT transaction_stamp()")
    await connect(database)
    settled = await superuser.fetchrow("SELECT * FROM settled()")
    after = await superuser.fetchval("SELECT transaction_stamp()")
    assert before < settled["stamp"] <= after
    assert after - before > 2**47
    assert settled["epoch"] == (await superuser.fetch(EPOCHS))[-1]["id"]
    async with superuser.transaction():
        first = await superuser.fetchval("SELECT transaction_stamp()")
        await superuser.execute("SAVEPOINT s")
        assert await superuser.fetchval("SELECT transaction_stamp()") == first
        await superuser.execute("ROLLBACK TO s")
        assert await superuser.fetchval("SELECT transaction_stamp()") == first


async def test_the_servers_role_chooses_no_epoch(database: Database, superuser: asyncpg.Connection) -> None:
    await connect(database)
    before = await superuser.fetch(EPOCHS)
    connection = await asyncpg.connect(database.direct)
    for forged in ("(number) VALUES (9)", "(id) VALUES (gen_random_uuid())", "(database) VALUES ('x')"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(f"INSERT INTO epochs {forged}")
    await connection.execute("INSERT INTO epochs (started_at) VALUES (now())")
    await connection.close()
    assert await superuser.fetch(EPOCHS) == before


async def test_a_cluster_that_does_not_tell_its_identity_has_epochs_too(
    database: Database, superuser: asyncpg.Connection
) -> None:
    await superuser.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    await connect(database)
    await connect(database)
    original, copy = await superuser.fetch(EPOCHS)
    assert copy["database"].startswith("unknown.")
    assert copy["database"].split(".")[1] != original["database"].split(".")[1]


async def test_records_of_an_epoch_before_come_before_the_new_ones_whatever_their_ids(
    uow: UnitOfWork, journal: Journal, a: Principal, superuser: asyncpg.Connection
) -> None:
    feed = ChangeFeedStorage()
    first = creation(a, "Maya plays chess.")
    await journal.record(a, [first])
    await superuser.execute(
        "SET session_replication_role = replica; UPDATE history SET stamp = stamp | (1::bigint << 40)"
    )
    await superuser.execute(MOVED)
    await uow.call_definer("SELECT begin_epoch()")
    async with uow.read(a) as tx:
        now = await feed.find_last(tx, a)
    second = creation(a, "Maya drinks oat milk.")
    await journal.record(a, [second])
    beginning = ChangePosition(Stamp(now.stamp.epoch, 0), new_id())

    async def is_told() -> bool:
        async with uow.read(a) as tx:
            return ids_of(await feed.read_page(tx, a, ChangeFilter(), now, 10)) == [str(second.memory_id)]

    await until(is_told, "the end of transactions of other databases of the cluster")
    async with uow.read(a) as tx:
        found = await feed.read_page(tx, a, ChangeFilter(), beginning, 10)
        assert ids_of(found) == [str(first.memory_id), str(second.memory_id)]
        for lost in (
            replace(now, stamp=Stamp(new_id(), now.stamp.number)),
            replace(now, record=new_id()),
            replace(now, stamp=Stamp(now.stamp.epoch, now.stamp.number + 1)),
        ):
            with pytest.raises(CursorOfOtherDatabase):
                await feed.read_page(tx, a, ChangeFilter(), lost, 10)


@pytest.mark.parametrize("epoch", ["before", "present"])
async def test_a_record_of_an_epoch_before_with_the_same_id_speaks_for_no_change(
    journal: Journal, a: Principal, superuser: asyncpg.Connection, epoch: str
) -> None:
    written = creation(a, "Maya plays chess.")
    await journal.record(a, [written])
    transaction = superuser.transaction()
    await transaction.start()
    await superuser.execute("SET LOCAL session_replication_role = replica")
    stamp = await superuser.fetchval("SELECT transaction_stamp()") - (epoch == "before") * 2**48
    await superuser.execute("UPDATE history SET stamp = $1", stamp)
    await superuser.execute("SET LOCAL session_replication_role = origin")
    await superuser.execute("UPDATE memories SET importance = 5 WHERE id = $1", written.memory_id)
    if epoch == "present":
        await transaction.commit()
        return
    with pytest.raises(asyncpg.PostgresError, match="without a history row in the same transaction"):
        await transaction.commit()


async def test_rules_of_before_a_restore_are_forgotten(
    uow: UnitOfWork, a: Principal, superuser: asyncpg.Connection
) -> None:
    policies = TenantPolicies(load_policies("all-MiniLM-L6-v2"))
    refresh = RefreshRules([TenantConfigStorage(uow)], policies)
    for version in (1, 2):
        await superuser.execute(
            "INSERT INTO tenant_configs (tenant_id, version, document, actor) VALUES ($1, $2, '{}', 'me')",
            *(a.tenant_id, version),
        )
    await refresh.load_changes()
    assert policies.version_of(a.tenant_id) == 2
    await superuser.execute("DELETE FROM tenant_configs WHERE version = 2")
    await refresh.load_changes()
    assert policies.version_of(a.tenant_id) == 2, "nothing changed in this database"
    await superuser.execute(MOVED)
    await refresh.load_changes()
    assert policies.version_of(a.tenant_id) == 1
    storage = TenantConfigStorage(uow)
    settled = (await storage.list_changed(None)).settled
    ahead = replace(settled, number=settled.number + 1_000_000)
    assert [(await storage.list_changed(since)).is_whole for since in (None, settled, ahead)] == [True, False, True]
