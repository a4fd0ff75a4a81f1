"""Residences: a database of several refuses to write for a tenant that is at home in another one."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.domain.epochs import ChangePosition, Stamp
from app.domain.errors import CursorOfOtherDatabase
from app.domain.memory.change_feed import ChangeFilter
from app.domain.principal import Principal
from app.storage.journal import Journal
from app.storage.memory.change_feed import ChangeFeedStorage
from app.storage.uow import UnitOfWork
from tests.conftest import Database
from tests.own_postgres import connected
from tests.storage.building import bind, remembered

JOIN = "SELECT join_cluster($1, 1::smallint, $2)"
WRITE = "INSERT INTO tombstones (tenant_id, hash) VALUES ($1, '\\x00') ON CONFLICT DO NOTHING"


@pytest.fixture
async def owner(database: Database) -> AsyncIterator[asyncpg.Connection]:
    async with connected(database.admin) as sql:
        await sql.execute("SET ROLE mnema_owner")
        yield sql


async def try_write(raw: asyncpg.Connection, tenant: UUID, statement: str = WRITE) -> str | None:
    """Return the SQLSTATE of a write of this tenant, None if it is stored."""
    try:
        async with raw.transaction():
            await bind(raw, tenant)
            await raw.execute(statement, tenant)
    except asyncpg.PostgresError as error:
        return str(error.sqlstate)
    return None


async def test_who_was_there_is_at_home_and_others_are_refused(
    owner: asyncpg.Connection, raw: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    await owner.execute(JOIN, "first", True)
    await owner.execute(JOIN, "first", True)
    assert await try_write(raw, a.tenant_id) is None
    await owner.execute("SELECT end_residence($1)", b.tenant_id)
    assert [await try_write(raw, tenant) for tenant in (a.tenant_id, b.tenant_id, uuid4())] == [None, "MN421", "MN421"]
    with pytest.raises(asyncpg.RaiseError, match="this database is the cluster first"):
        await owner.execute(JOIN, "second", True)


async def test_the_directory_is_written_in_one_cluster(database: Database, owner: asyncpg.Connection) -> None:
    await owner.execute(JOIN, "second", False)
    async with connected(database.direct) as raw:
        statement = "INSERT INTO tenants (id, name) VALUES ($1, 'new')"
        assert await try_write(raw, uuid4(), statement) == "MN422"


@pytest.mark.parametrize(
    ("cluster", "placed", "row", "told"),
    [
        ("second", 1, "'home', 1, 0", None),
        ("first", 1, "'home', 1, 0", "42501"),
        ("second", 2, "'home', 1, 0", "42501"),  # it has moved, and its former copy is forgotten
        ("second", 1, "'home', 2, 0", "42501"),
        ("second", 1, "'home', 1, 7", "42501"),
        ("second", 1, "'away', 1, 0", "42501"),
        (None, 1, "'home', 1, 0", "42501"),
    ],
)
async def test_a_server_makes_no_home_but_the_first_of_a_new_tenant(
    database: Database, owner: asyncpg.Connection, cluster: str | None, placed: int, row: str, told: str | None
) -> None:
    await owner.execute(JOIN, "second", True)
    tenant = uuid4()
    async with owner.transaction():
        await bind(owner, tenant)
        await owner.execute("INSERT INTO tenants (id, name) VALUES ($1, 'new')", tenant)
        if cluster is not None:
            place = "INSERT INTO placements (tenant_id, cluster, epoch) VALUES ($1, $2, $3)"
            await owner.execute(place, tenant, cluster, placed)
    statement = f"INSERT INTO residences (tenant_id, state, epoch, number) VALUES ($1, {row})"
    async with connected(database.direct) as raw:
        assert await try_write(raw, tenant, statement) == told
        if cluster is None:
            statement = "INSERT INTO placements (tenant_id, cluster, epoch) VALUES ($1, 'second', 2)"
            assert await try_write(raw, tenant, statement) == "42501"
        assert await try_write(raw, tenant, "DELETE FROM revocations WHERE tenant_id = $1") == "42501"


async def test_words_are_indexed_for_a_worker_that_searches_no_schema(
    database: Database, owner: asyncpg.Connection, superuser: asyncpg.Connection, journal: Journal, a: Principal
) -> None:
    """The worker of a replication has an empty search path, and fires triggers that are always enabled."""
    await remembered(journal, a, "Maya plays chess.")
    async with superuser.transaction():
        await superuser.execute("SET LOCAL search_path = ''; SET LOCAL session_replication_role = replica")
        await superuser.execute("UPDATE public.memories SET text = 'Maya plays the cello.', tsv = NULL")
        assert "cello" in await superuser.fetchval("SELECT tsv::text FROM public.memories")


async def test_a_database_with_tenants_keeps_the_directory(owner: asyncpg.Connection, a: Principal) -> None:
    with pytest.raises(asyncpg.RaiseError, match="only join as the first"):
        await owner.execute(JOIN, "second", False)


async def test_a_residence_is_resumed_once(owner: asyncpg.Connection, raw: asyncpg.Connection, a: Principal) -> None:
    await owner.execute(JOIN, "first", True)
    ended = await owner.fetchval("SELECT residence_epoch FROM end_residence($1)", a.tenant_id)
    assert await owner.fetchval("SELECT resume_residence($1, $2)", a.tenant_id, ended) == ended + 1
    assert await try_write(raw, a.tenant_id) is None
    with pytest.raises(asyncpg.PostgresError, match="is not known here"):
        await owner.execute("SELECT resume_residence($1, $2)", a.tenant_id, ended)


async def test_stamps_after_a_move_are_above_those_before(
    owner: asyncpg.Connection, uow: UnitOfWork, journal: Journal, a: Principal, b: Principal
) -> None:
    """Other tenants keep their order, and a later epoch of the database is above all."""
    await owner.execute(JOIN, "first", True)
    await remembered(journal, a)
    up_to = 7 << 48 | 12
    ended = await owner.fetchval("SELECT residence_epoch FROM end_residence($1)", a.tenant_id)
    begin = "SELECT begin_residence($1, $2, gen_random_uuid(), $3)"
    await owner.execute(begin, a.tenant_id, ended + 1, up_to)
    await owner.execute(begin, a.tenant_id, ended + 1, up_to)
    await remembered(journal, a, "Maya plays chess.")
    await remembered(journal, b)
    numbers = {}
    for tenant in (a, b):
        async with uow.read(tenant) as tx:
            stamps = await tx.fetch("SELECT stamp >> 48 AS number FROM history ORDER BY stamp")
            settled = await tx.fetchval("SELECT stamp >> 48 FROM settled()")
        numbers[tenant] = [row["number"] for row in stamps], settled
    copy = 2  # the test's database is a copy of the template
    assert numbers == {a: ([copy, 8], 8), b: ([copy], copy)}
    await owner.execute("ALTER TABLE epochs DISABLE TRIGGER USER")
    await owner.execute("UPDATE epochs SET database = 'the one before'")
    await owner.execute("ALTER TABLE epochs ENABLE TRIGGER USER")
    await owner.execute("SELECT begin_epoch()")
    assert await owner.fetchval("SELECT max(number) FROM epochs") == 9


async def test_a_cursor_of_the_former_home_goes_on_up_to_its_last_stamp(
    owner: asyncpg.Connection, uow: UnitOfWork, journal: Journal, a: Principal
) -> None:
    await owner.execute(JOIN, "first", True)
    stored = [await remembered(journal, a, text) for text in ("Maya drinks oat milk.", "Maya plays chess.")]
    feed, former = ChangeFeedStorage(), uuid4()
    async with uow.read(a) as tx:
        [first, last] = await tx.fetch("SELECT stamp, id FROM history ORDER BY stamp")
    place = ChangePosition(Stamp(former, first["stamp"]), first["id"])
    with pytest.raises(CursorOfOtherDatabase):
        async with uow.read(a) as tx:
            await feed.read_page(tx, a, ChangeFilter(), place, 10)
    ended = await owner.fetchrow("SELECT * FROM end_residence($1)", a.tenant_id)
    await owner.execute(
        "SELECT begin_residence($1, $2, $3, $4)", a.tenant_id, ended["residence_epoch"] + 1, former, last["stamp"] - 1
    )
    async with uow.read(a) as tx:
        page = await feed.read_page(tx, a, ChangeFilter(), place, 10)
        assert [event.memory_id for event in page.events] == [str(stored[1].id)]
        assert page.position.stamp.epoch != former
        assert (await feed.read_page(tx, a, ChangeFilter(), page.position, 10)).events == ()
        late = ChangePosition(Stamp(former, last["stamp"]), last["id"])
        with pytest.raises(CursorOfOtherDatabase):
            await feed.read_page(tx, a, ChangeFilter(), late, 10)
