"""Records beyond their retention are deleted batch by batch, however many there are."""

import math
from collections import Counter
from uuid import uuid4

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.principal import Principal
from tests.factories import Caller, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.crowd import SeededEmbedder

BATCH = 3
OLD = {"change_log": 7, "events": 10, "idempotency_keys": 4, "jobs": 8, "store_items": 5, "llm_calls": 6} | {
    "receipts": 7,
    "usage_days": 4,
    "memory_batches": 5,
}
"""The number of old rows in each table; five more rows of each are new."""
NOT_FILLED = {"facts": 0, "artifacts": 0}

_ROWS = {
    "thread_revision": "SELECT $1, 't', $3::int + 5 WHERE $2 > 100",
    "change_log": """(tenant_id, id, thread_id, rev, memory_id, event)
        SELECT $1, gen_random_uuid(), 't', n + CASE WHEN $2 > 100 THEN 0 ELSE 7 END, n::text, 'updated'
        FROM generate_series(1, $3::int) n""",
    "events": """(tenant_id, id, node, op, status, sim, ts)
        SELECT $1, gen_random_uuid(), 'context', 'search', 'ok', n, now() - make_interval(days => $2 - n)
        FROM generate_series(1, $3::int) n""",
    "idempotency_keys": """(tenant_id, key_id, route, key, body_hash, response, created_at)
        SELECT $1, gen_random_uuid(), 'r', 'k', '', '{}', now() - make_interval(days => $2 - n)
        FROM generate_series(1, $3::int) n""",
    "jobs": """(tenant_id, id, kind, state, updated_at) SELECT $1, gen_random_uuid(), 'embed',
        CASE WHEN n % 2 = 0 THEN 'done' ELSE 'dead' END, now() - make_interval(days => $2 - n)
        FROM generate_series(1, $3::int) n""",
    "store_items": """(tenant_id, id, path, key, value, size, ttl, expires_at, created_at, updated_at)
        SELECT $1, gen_random_uuid(), 'p', gen_random_uuid()::text, '{}', 2, '1 day',
        now() - make_interval(days => $2 - 50), now(), now() FROM generate_series(1, $3::int)""",
    "llm_calls": """SELECT $1, gen_random_uuid(), now() - make_interval(days => $2 - n), 'p', 1, 'm', 1, 1, 1, 1, 1, 1,
        true, 'ok' FROM generate_series(1, $3::int) n""",
    "receipts": """(tenant_id, id, ts, via) SELECT $1, gen_random_uuid(), now() - make_interval(days => $2 - n), 'query'
        FROM generate_series(1, $3::int) n""",
    "memory_batches": """(tenant_id, id, action, user_pks, filters, changes, categories, matched, changed, skipped,
        actor, created_at) SELECT $1, gen_random_uuid(), 'delete', '{}', '{}', '{}', '{}', 1, 1, '{}', 'a',
        now() - make_interval(days => $2 - n)
        FROM generate_series(1, $3::int) n""",
    "usage_days": "SELECT $1, current_date - $2::int + n, '', 1, 1 FROM generate_series(1, $3::int) n",
}


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model."""
    return SeededEmbedder()


@pytest.fixture
async def patient(configured: Configured) -> Application:
    """An application that deletes three rows of a table in a batch."""
    return await configured(policies={"lifecycle": {"records_batch": BATCH, "change_log_revisions": 5}})


async def fill(sql: asyncpg.Connection, scope: Principal) -> None:
    """Insert OLD old rows and five new ones into each table."""
    for table, rows in _ROWS.items():
        await sql.execute(f"INSERT INTO {table} {rows}", scope.tenant_id, 400, OLD.get(table, 7))
        await sql.execute(f"INSERT INTO {table} {rows}", scope.tenant_id, 6, 5)


async def left(sql: asyncpg.Connection, scope: Principal) -> dict[str, int]:
    """Return the number of rows of each table."""
    return {t: await sql.fetchval(f"SELECT count(*) FROM {t} WHERE tenant_id = $1", scope.tenant_id) for t in OLD}


async def watch(sql: asyncpg.Connection) -> None:
    """Log every DELETE on these tables."""
    await sql.execute("""
        CREATE TABLE batches (name text, rows int, xid xid8 DEFAULT pg_current_xact_id());
        CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
            'BEGIN INSERT INTO batches SELECT tg_table_name, count(*) FROM gone; RETURN NULL; END'""")
    for table in OLD:
        await sql.execute(f"""CREATE TRIGGER told AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone
                              FOR EACH STATEMENT EXECUTE FUNCTION told()""")


@pytest.mark.long
async def test_old_records_go_a_batch_at_a_time_and_nothing_else_goes(
    patient: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    scope, other = caller.scope, (await make_caller(patient)).scope
    for one in (scope, other):
        await fill(sql, one)
    await watch(sql)
    young = dict.fromkeys(OLD, 5)
    assert (await patient.retention.forget.delete_old_records(scope, dry_run=True)).counts == OLD | NOT_FILLED
    assert await left(sql, scope) == {table: count + 5 for table, count in OLD.items()}
    assert (await patient.retention.forget.delete_old_records(scope)).counts == OLD | NOT_FILLED
    assert await left(sql, scope) == young
    assert (await patient.retention.forget.delete_old_records(scope)).counts == dict.fromkeys(OLD, 0) | NOT_FILLED
    assert await left(sql, other) == {table: count + 5 for table, count in OLD.items()}
    batches = await sql.fetch("SELECT name, rows, xid FROM batches WHERE rows > 0")
    assert max(row["rows"] for row in batches) == BATCH
    rounds = {table: math.ceil(count / BATCH) for table, count in OLD.items()}
    assert Counter(row["name"] for row in batches) == rounds
    assert len({row["xid"] for row in batches if row["name"] == "events"}) == rounds["events"], (
        "one transaction for each batch"
    )


async def test_what_was_dropped_before_a_stop_stays_dropped_and_the_next_run_goes_on(
    patient: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await fill(sql, caller.scope)
    await sql.execute("""
        CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''stop''; END';
        CREATE TRIGGER stop BEFORE DELETE ON events FOR EACH ROW WHEN (old.sim = 8) EXECUTE FUNCTION stop()""")
    with pytest.raises(asyncpg.RaiseError, match="stop"):
        await patient.retention.forget.delete_old_records(caller.scope)
    sims = await sql.fetch("SELECT sim FROM events WHERE ts < now() - interval '90 days' ORDER BY ts")
    assert [row["sim"] for row in sims] == [7, 8, 9, 10], "the oldest rows go first"
    await sql.execute("DROP TRIGGER stop ON events")
    assert (await patient.retention.forget.delete_old_records(caller.scope)).counts["events"] == 4
    assert await left(sql, caller.scope) == dict.fromkeys(OLD, 5)


async def test_a_job_that_is_put_back_while_old_ones_go_stays(
    patient: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    job = uuid4()
    await sql.execute(
        """INSERT INTO jobs (tenant_id, id, kind, state, updated_at)
           VALUES ($1, $2, 'embed', 'dead', now() - interval '400 days')""",
        caller.scope.tenant_id,
        job,
    )
    async with sql.transaction():
        await sql.execute("UPDATE jobs SET state = 'queued', updated_at = now() WHERE id = $1", job)
        assert (await patient.retention.forget.delete_old_records(caller.scope)).counts["jobs"] == 0, (
            "it waits for no lock"
        )
    assert await sql.fetchval("SELECT state FROM jobs WHERE id = $1", job) == "queued"
