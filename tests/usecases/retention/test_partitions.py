"""Events and receipts leave with their week: on a real PostgreSQL, with other sessions at work."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import RFC_4122, UUID, uuid4

import asyncpg
import pytest

from app.bootstrap import Application
from app.storage.retention.partitions import OldWeek
from app.storage.tenancy.tenant_removal import remove_tenant
from app.usecases.tenancy.rules import RulesDraft
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.usecases.crowd import SeededEmbedder

PARENTS = ("events", "receipts", "receipt_items")
CHILDREN = """
SELECT i.inhparent::regclass::text AS parent, c.oid::regclass::text AS name FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = ANY ('{events,receipts,receipt_items}'::regclass[])
"""
PAST_WEEKS = """
SELECT count(add_week(tables, keys, week_of(now()) - make_interval(days => 7 * n), 1000))
FROM partition_families(), generate_series(1, $1) n
"""


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model."""
    return SeededEmbedder()


def id_of(age_days: float) -> UUID:
    """Return a UUIDv7 of that time."""
    milliseconds = int((datetime.now(UTC) - timedelta(days=age_days)).timestamp() * 1000)
    return UUID(int=milliseconds << 80 | 7 << 76 | 2 << 62 | (uuid4().int & (1 << 62) - 1))


async def put_event(sql: asyncpg.Connection, tenant: Caller, age: float, row_age: float | None = None) -> UUID:
    """Insert an event of maya's. `row_age`: of its `ts`, by default that of its id."""
    event = id_of(age)
    await sql.execute(
        """INSERT INTO events (tenant_id, id, user_id, node, op, status, ts)
           VALUES ($1, $2, 'maya', 'context', 'search', 'ok', now() - $3 * interval '1 day')""",
        *(tenant.scope.tenant_id, event, age if row_age is None else row_age),
    )
    return event


async def put_receipt(sql: asyncpg.Connection, tenant: Caller, age: float) -> UUID:
    """Insert a receipt for maya with two items."""
    receipt = id_of(age)
    await sql.execute(
        """WITH r AS (INSERT INTO receipts (tenant_id, id, ts, via, user_id)
                      VALUES ($1, $2, now() - $3 * interval '1 day', 'query', 'maya'))
           INSERT INTO receipt_items (tenant_id, receipt_id, place, part, memory_id, category)
           SELECT $1, $2, n, 'item', gen_random_uuid(), 'tasks' FROM generate_series(1, 2) n""",
        *(tenant.scope.tenant_id, receipt, age),
    )
    return receipt


async def as_keeper(sql: asyncpg.Connection, statement: str, *args: Any) -> Any:
    """Run a statement as the role that owns the partitions; return its first value."""
    async with sql.transaction():
        await sql.execute("SET LOCAL ROLE mnema_partitions")
        return await sql.fetchval(statement, *args)


async def stored(sql: asyncpg.Connection, table: str = "events", key: str = "id") -> set[UUID]:
    """Return the ids in a table, of all tenants."""
    return {row[key] for row in await sql.fetch(f"SELECT {key} FROM {table}")}


def total(weeks: list[OldWeek], table: str) -> int:
    """Return the number of rows of a table in these weeks."""
    return sum(week.rows.get(table, 0) for week in weeks)


async def test_ids_made_in_sql_are_of_their_time(sql: asyncpg.Connection) -> None:
    rows = await sql.fetch("SELECT new_id() AS id, first_id(clock_timestamp()) AS latest FROM generate_series(1, 100)")
    earliest = id_of(1 / 1440)
    assert len({row["id"] for row in rows}) == 100
    for row in rows:
        assert (row["id"].version, row["id"].variant) == (7, RFC_4122)
        assert earliest < row["id"] < UUID(int=row["latest"].int + (2 << 80))


@pytest.mark.long
async def test_old_weeks_are_dropped_and_counted_and_younger_rows_stay(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    other = await make_caller(app)
    await as_keeper(sql, PAST_WEEKS, 30)
    old = {await put_event(sql, one, age) for one in (caller, other) for age in (99, 100, 150, 180)}
    kept = {await put_event(sql, one, age) for one in (caller, other) for age in (0, 10, 60, 89)}
    kept.add(await put_event(sql, caller, 200, row_age=1))  # a server whose clock is wrong
    kept.add(await put_event(sql, other, 200))  # in the same week
    gone = [await put_receipt(sql, one, age) for one in (caller, other) for age in (38, 200)]
    told = {await put_receipt(sql, one, age) for one in (caller, other) for age in (0, 29)}

    planned = await app.retention.partitions.keep_partitions(dry_run=True)
    assert (total(planned.dropped, "events"), total(planned.dropped, "receipts")) == (len(old), len(gone))
    assert total(planned.dropped, "receipt_items") == 2 * len(gone)
    assert await stored(sql) == old | kept, "a dry run drops nothing"

    report = await app.retention.partitions.keep_partitions()
    assert (report.dropped, report.busy) == (planned.dropped, False)
    assert await stored(sql) == kept
    assert await stored(sql, "receipts") == told == await stored(sql, "receipt_items", "receipt_id")
    again = await app.retention.partitions.keep_partitions()
    assert again.is_empty
    left = {row["name"] for row in await sql.fetch(CHILDREN)}
    assert len(left) < 3 * 25
    assert {f"partitions.{table}_default" for table in PARENTS} <= left


@pytest.mark.long
async def test_a_week_stays_for_the_tenant_that_keeps_it_longest_and_others_delete_their_rows(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    usual, brief = await make_caller(app), await make_caller(app)
    await app.tenancy.rules.put_rules(
        caller.scope, RulesDraft({"lifecycle": {"events_days": 365, "receipts_days": 100}})
    )
    await app.tenancy.rules.put_rules(brief.scope, RulesDraft({"lifecycle": {"events_days": 5}}))
    await as_keeper(sql, PAST_WEEKS, 55)
    ages = (4, 6, 89, 91, 200, 364, 373)
    events = {one.scope.tenant_id: [await put_event(sql, one, age) for age in ages] for one in (caller, usual, brief)}
    receipts = {one.scope.tenant_id: [await put_receipt(sql, one, a) for a in (50, 108)] for one in (caller, usual)}
    dropped = (await app.retention.partitions.keep_partitions()).dropped
    assert (total(dropped, "events"), total(dropped, "receipts")) == (3, 2)
    for one in (caller, usual, brief):
        await app.retention.forget.delete_old_records(one.scope)
    days = {caller: 365, usual: 90, brief: 5}
    expected = {
        event
        for one, most in days.items()
        for age, event in zip(ages, events[one.scope.tenant_id], strict=True)
        if age < most
    }
    assert await stored(sql) == expected
    assert await stored(sql, "receipts") == {receipts[caller.scope.tenant_id][0]}


@pytest.mark.long
async def test_rows_that_leave_with_their_week_are_not_deleted_one_by_one(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await as_keeper(sql, PAST_WEEKS, 30)
    soon = {await put_event(sql, caller, age) for age in (91, 103)}
    await put_event(sql, caller, 105)  # nobody dropped its week in two weeks
    receipts = [await put_receipt(sql, caller, age) for age in (31, 45)]
    for dry_run in (True, False):
        counts = (await app.retention.forget.delete_old_records(caller.scope, dry_run=dry_run)).counts
        assert (counts["events"], counts["receipts"]) == (1, 1)
    assert await stored(sql) == soon
    assert await stored(sql, "receipts") == {receipts[0]}


async def test_a_default_partition_takes_what_has_no_week_and_is_emptied(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    names = await sql.fetch("SELECT partition_name(t, week_of(now())) AS name FROM unnest($1::text[]) t", list(PARENTS))
    await as_keeper(sql, "DROP TABLE " + ", ".join(f"partitions.{row['name']}" for row in names))
    now, far = await put_event(sql, caller, 0), await put_event(sql, caller, -300)
    receipt = await put_receipt(sql, caller, 0)
    assert await stored(sql, "partitions.events_default") == {now, far}
    limited = "SELECT add_week('{receipts,receipt_items}', '{id,receipt_id}', week_of(now()), 1)"
    assert await as_keeper(sql, limited) is None, "two items are more than one row"
    report = await app.retention.partitions.keep_partitions()
    assert (sorted(report.added), report.moved, report.skipped) == (sorted(row["name"] for row in names), 4, [])
    assert await stored(sql, "partitions.events_default") == {far}
    assert await stored(sql) == {now, far}
    assert await stored(sql, f"partitions.{names[2]['name']}", "receipt_id") == {receipt}
    assert await sql.fetchval("SELECT count(*) FROM partitions.receipt_items_default") == 0
    assert (await app.retention.partitions.keep_partitions()).is_empty


@pytest.mark.long
async def test_upkeep_gives_way_to_readers_and_holds_up_no_writer_and_a_kill_leaves_all_as_it_was(
    app: Application, caller: Caller, sql: asyncpg.Connection, database: Database
) -> None:
    await as_keeper(sql, PAST_WEEKS, 30)
    old = {await put_event(sql, caller, 200)}
    async with sql.transaction():  # a long read of all partitions
        await sql.fetch("SELECT * FROM events")
        upkeep = asyncio.create_task(app.retention.partitions.keep_partitions())
        wrote = [asyncio.create_task(app.parts.uow.call(caller.scope, EVENT, uuid4())) for _ in range(20)]
        assert (await upkeep).busy
        await asyncio.gather(*wrote)
        assert len(await stored(sql)) == 21
    keeper = await asyncpg.connect(database.app)
    doomed = keeper.transaction()
    await doomed.start()
    assert await keeper.fetchval("SELECT drop_partitions(90, 30, now(), false)") not in (None, "[]")
    assert (await app.retention.partitions.keep_partitions()).busy, "two never work at once"
    await sql.execute("SELECT pg_terminate_backend($1)", keeper.get_server_pid())
    keeper.terminate()
    assert old <= await stored(sql)
    while (report := await app.retention.partitions.keep_partitions()).busy:  # until the server has noticed
        pass
    assert len(report.dropped) > 1
    assert not old & await stored(sql)


EVENT = """
INSERT INTO events (tenant_id, id, node, op, status)
SELECT t, uuidv7(), 'context', 'search', 'ok' FROM (
    SELECT $1::uuid AS t, set_config('app.tenant_id', $1::uuid::text, true), $2::uuid) o
"""


@pytest.mark.long
async def test_nobody_reaches_a_partition_directly_and_a_tenant_sees_only_its_own_rows(
    app: Application, caller: Caller, sql: asyncpg.Connection, database: Database
) -> None:
    other = await make_caller(app)
    await as_keeper(sql, PAST_WEEKS, 30)
    ages = (0, 20, 80, -300)
    mine = {await put_event(sql, caller, age) for age in ages}
    for age in ages:
        await put_event(sql, other, age)
    children = await sql.fetch(CHILDREN)
    assert len({child["parent"] for child in children}) == 3
    assert len(children) > 90
    connection = await asyncpg.connect(database.app)
    try:
        for child in children:
            for statement in ("SELECT FROM {}", "INSERT INTO {} DEFAULT VALUES", "DELETE FROM {}", "DROP TABLE {}"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(statement.format(child["name"]))
        for statement in (
            "SET ROLE mnema_partitions",
            "SELECT add_week('{events}', '{id}', now(), 1)",
            "CREATE TABLE partitions.mine (id uuid)",
            "ALTER TABLE events DETACH PARTITION partitions.events_default",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
        assert await connection.fetch("SELECT id FROM events") == []
        await connection.execute("SELECT set_config('app.tenant_id', $1, false)", str(caller.scope.tenant_id))
        assert {row["id"] for row in await connection.fetch("SELECT id FROM events")} == mine
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await connection.execute(
                "INSERT INTO events (tenant_id, id, node, op, status) VALUES ($1, $2, 'context', 'o', 'ok')",
                *(other.scope.tenant_id, id_of(20)),
            )
    finally:
        await connection.close()


@pytest.mark.long
async def test_export_erasure_and_removal_find_the_rows_of_all_weeks(
    app: Application, caller: Caller, sql: asyncpg.Connection, database: Database
) -> None:
    other = await make_caller(app)
    await as_keeper(sql, PAST_WEEKS, 30)
    ages = (0, 20, 80, 200, -300)
    mine = {await put_event(sql, caller, age) for age in ages}
    receipts = {await put_receipt(sql, caller, age) for age in ages}
    theirs = {await put_event(sql, other, age) for age in ages}
    await put_receipt(sql, other, 20)
    exported = [record async for record in await app.retention.export.export_records(caller.scope, "maya")]
    ids = {kind: {UUID(str(r["id"])) for r in exported if r["kind"] == kind} for kind in ("event", "receipt")}
    assert ids == {"event": mine, "receipt": receipts}
    counts = (await app.retention.erase.erase_user(caller.scope, "maya")).counts
    assert (counts["events"], counts["receipts"]) == (5, 5)
    assert await stored(sql) == theirs
    assert await sql.fetchval("SELECT count(*) FROM receipt_items") == 2

    async def no_wait(_seconds: float) -> None:
        pass

    removed = await remove_tenant(database.admin, str(other.scope.tenant_id), 0, no_wait)
    assert (removed["events"], removed["receipts"], removed["receipt_items"]) == (5, 1, 2)
