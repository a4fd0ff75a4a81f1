"""The kept counts of memories equal a count of all of them, whatever changed and however many change at once."""

import asyncio
import random
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.memory.memory import MemoryType
from tests.conftest import Installation
from tests.factories import Caller, draft
from tests.storage.building import bind

KEPT = """
SELECT category, agent_key, sum(memories)::int, max(changed_at) FROM memory_counts WHERE tenant_id = $1
GROUP BY category, agent_key HAVING sum(memories) <> 0"""
COUNTED = """
SELECT category, agent_key(agent_id), count(*)::int, max(updated_at) FROM memories
WHERE tenant_id = $1 AND state = 'active' GROUP BY 1, 2"""
INSERT = """
INSERT INTO memories (tenant_id, id, user_pk, user_id, agent_id, type, category, text, text_hash, importance, pinned,
                      tags, state, metadata, version, created_at, updated_at)
    SELECT $1, gen_random_uuid(), user_pk_of($1, 'maya'), 'maya', $2, 'turn', $3, 'text', '', 3, false, '{}', $4, '{}',
           1, now(), now() + random() * interval '1 day'
    FROM generate_series(1, $5)"""
SOME = "tenant_id = $1 AND id = ANY (ARRAY(SELECT id FROM memories WHERE tenant_id = $1 ORDER BY random() LIMIT $2))"
UPDATE = f"""
UPDATE memories SET category = $3, agent_id = $4, state = $5, updated_at = now() + random() * interval '1 day'
WHERE {SOME}"""
DELETE = f"DELETE FROM memories WHERE {SOME}"


async def assert_exact(sql: asyncpg.Connection, tenant: UUID) -> None:
    """Check that the kept counts are those of the memories, and that no change is newer than the kept one."""
    kept = {row[:2]: row[2:] for row in await sql.fetch(KEPT, tenant)}
    counted = {row[:2]: row[2:] for row in await sql.fetch(COUNTED, tenant)}
    assert {key: number for key, (number, _at) in kept.items()} == {key: number for key, (number, _) in counted.items()}
    assert all(kept[key][1] >= changed_at for key, (_number, changed_at) in counted.items())


async def rows_kept(sql: asyncpg.Connection, tenant: UUID) -> int:
    """Return the number of rows that a reader sums."""
    number: int = await sql.fetchval("SELECT count(*) FROM memory_counts WHERE tenant_id = $1", tenant)
    return number


async def remember(app: Application, caller: Caller, text: str, **fields: Any) -> None:
    """Write a memory that is compared with no other."""
    fields = {"type": MemoryType.episodic, "category": "goals"} | fields
    await app.memory.write.write_memory(caller.scope, draft(text, **fields))


@pytest.mark.parametrize("seed", range(3))
async def test_random_changes_of_many_memories(
    app: Application, caller: Caller, sql: asyncpg.Connection, seed: int
) -> None:
    chance = random.Random(seed)
    tenant = caller.scope.tenant_id
    await remember(app, caller, "Maya has bees.")
    change = sql.transaction()
    await change.start()
    for _ in range(60):
        category, state = chance.choice(["goals", "tasks"]), chance.choice(["active", "active", "superseded"])
        agent, rows = chance.choice(["planner", "writer", None]), chance.randrange(9)
        match chance.randrange(4):
            case 0 | 1:
                await sql.execute(INSERT, tenant, agent, category, state, rows)
            case 2:
                await sql.execute(UPDATE, tenant, rows, category, agent, state)
            case 3:
                await sql.execute(DELETE, tenant, rows)
        await assert_exact(sql, tenant)
    await change.rollback()
    await assert_exact(sql, tenant)


async def test_writes_at_once(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    async def write_all(writer: int) -> None:
        for n in range(8):
            await remember(app, caller, f"{writer} has {n} bees.", user_id=f"user {writer}", agent_id="planner")

    await asyncio.gather(*map(write_all, range(8)))
    await assert_exact(sql, caller.scope.tenant_id)


async def test_a_reader_sums_few_rows(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    tenant = caller.scope.tenant_id
    await remember(app, caller, "Maya has bees.")
    change = sql.transaction()
    await change.start()
    for _ in range(600):
        await sql.execute(INSERT, tenant, "planner", "goals", "active", 1)
    # one statement in 16 folds: 400 without one come once in 10 ** 11 runs
    assert await rows_kept(sql, tenant) < 400
    await change.rollback()


async def test_a_fold_waits_for_no_other(
    app: Application, caller: Caller, sql: asyncpg.Connection, installation: Installation
) -> None:
    tenant = caller.scope.tenant_id
    for n in range(5):
        await remember(app, caller, f"Maya has {n} bees.", agent_id="planner")
    fold = "SELECT fold_counts($1, 'goals', agent_key('planner'))"
    other = await asyncpg.connect(installation.database.app)
    try:
        async with sql.transaction():
            await sql.execute(fold, tenant)
            async with other.transaction():
                await bind(other, tenant)
                await other.execute("SET LOCAL lock_timeout = '5s'")
                await other.execute(fold, tenant)
            await assert_exact(sql, tenant)
        assert await rows_kept(sql, tenant) == 1
    finally:
        await other.close()
    await assert_exact(sql, tenant)


async def test_counting_anew(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    tenant = caller.scope.tenant_id
    await remember(app, caller, "Maya has bees.")
    async with sql.transaction():
        await sql.execute("UPDATE memory_counts SET memories = 7 WHERE tenant_id = $1", tenant)
        await sql.execute("SELECT recount_memories($1)", tenant)
    await assert_exact(sql, tenant)
