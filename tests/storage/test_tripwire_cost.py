"""The cost of the tripwire: it looks at the history of each changed memory, however many others change with it."""

import asyncpg
import pytest

from app.bootstrap import Application
from tests.conftest import Database
from tests.factories import Caller, draft

pytestmark = pytest.mark.usefixtures("own")
READ = "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'history'"


async def test_a_large_transaction_reads_the_history_of_each_memory_once(
    app: Application, caller: Caller, database: Database
) -> None:
    for n in range(3):
        await app.memory.write.write_memory(caller.scope, draft(f"Maya has {n} bees.", category="goals"))
    sql = await asyncpg.connect(database.superuser)
    try:
        async with sql.transaction():
            await sql.execute(
                "WITH made AS (INSERT INTO memories (tenant_id, id, user_pk, user_id, type, category, text, text_hash,"
                " importance, pinned, tags, state, metadata, version, created_at, updated_at)"
                " SELECT tenant_id, gen_random_uuid(), user_pk, user_id, 'turn', category, text, text_hash, importance,"
                " pinned, tags, state, metadata, version, created_at, updated_at FROM memories, generate_series(1, 200)"
                " RETURNING tenant_id, id)"
                " INSERT INTO history (tenant_id, id, memory_id, event)"
                " SELECT tenant_id, gen_random_uuid(), id::text, 'ADD' FROM made"
            )
            before = await sql.fetchval(READ)
            await sql.execute("SET CONSTRAINTS ALL IMMEDIATE")
            assert await sql.fetchval(READ) - before <= 2 * 600
    finally:
        await sql.close()
