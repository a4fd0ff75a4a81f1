"""Requests in an installation with one large tenant and many small ones: the rows that they read.

A plan serves all tenants. Made for the average tenant, it would read all rows of the large one in one look-up.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Final

import asyncpg
import pytest
from pydantic import SecretStr

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.filters import Filters
from app.domain.memory.listing import MemoryListing
from app.domain.principal import Principal
from app.ports import Embedder
from app.usecases.recall.request import Query
from tests.conftest import Database
from tests.factories import Caller, draft

USERS: Final = 50
EACH: Final = 120
SMALL_TENANTS: Final = 600
MOST: Final = 3000
"""Index entries and rows that one request may read: half of the large tenant."""

MEMORIES = """
    INSERT INTO memories (tenant_id, id, user_pk, user_id, type, category, text, text_hash, importance, pinned, tags,
                          state, metadata, version, created_at, updated_at)
    SELECT u.tenant_id, gen_random_uuid(), u.user_pk, u.user_id, 'semantic', 'tasks',
           'note ' || n || ' of ' || u.user_id, sha256(n::text::bytea), 2, false, '{}', 'active', '{}', 1, now(),
           now() - n * interval '1 minute'
    FROM users u, generate_series(1, CASE WHEN u.tenant_id = $1 THEN $2::int ELSE 1 END) n
"""
VECTORS = """
    INSERT INTO vec_minilm_l6_v2 (tenant_id, user_pk, memory_id, type, category, state, embedding)
    SELECT m.tenant_id, m.user_pk, m.id, m.type, m.category, m.state,
           (SELECT array_agg(random() - 0.5) FROM generate_series(1, 384) d WHERE d < length(m.text) * 384)::halfvec
    FROM memories m
"""
ROWS = """
    SELECT t.relname, t.seq_tup_read + coalesce(
        (SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i
         WHERE i.relid = t.relid AND i.indexrelname <> 'memories_tsv'), 0) AS rows
    FROM pg_stat_user_tables t
"""


@pytest.fixture
async def one(settings: Settings, embedder: Embedder, database: Database) -> AsyncIterator[Application]:
    """An application with one connection, so that its counters can be read."""
    narrow = settings.model_copy(update={"database_url": SecretStr(database.app), "pool_min": 1, "pool_max": 1})
    async with build_application(narrow, Doubles(embedder=embedder)) as app:
        yield app


@pytest.fixture
async def small(app: Application, caller: Caller, sql: asyncpg.Connection) -> Principal:
    """One of the small tenants; the caller's is the large one."""
    small = Principal((await app.tenancy.tenants.create_tenant("small")).id)
    people = [(caller.scope.tenant_id, f"u{number}") for number in range(USERS)]
    await sql.executemany("INSERT INTO users (tenant_id, user_id) VALUES ($1, $2)", [*people, (small.tenant_id, "u1")])
    await sql.execute(
        f"""INSERT INTO tenants (id, name)
                SELECT gen_random_uuid(), 'small ' || n FROM generate_series(1, {SMALL_TENANTS}) n;
            INSERT INTO users (tenant_id, user_id) SELECT id, 'u1' FROM tenants WHERE name LIKE 'small %'"""
    )
    async with sql.transaction():
        await sql.execute("SET LOCAL session_replication_role = replica")
        await sql.execute(MEMORIES, caller.scope.tenant_id, EACH)
        await sql.execute(VECTORS)
    await sql.execute("VACUUM (ANALYZE)")
    await sql.fetchval("SELECT pg_stat_force_next_flush()")  # what this read is counted now, not during a request
    return small


class Requests:
    """Requests of one tenant through the application with one connection."""

    def __init__(self, one: Application, sql: asyncpg.Connection, scope: Principal) -> None:
        self._one, self._sql, self._scope = one, sql, scope
        self._notes = count()

    async def query_user(self) -> object:
        """Query the memories of a user."""
        return await self._query("u1")

    async def query_tenant(self) -> object:
        """Query the memories of all users."""
        return await self._query(None)

    async def _query(self, user: str | None) -> object:
        asked = Query(
            agent="planner", query=f"which note is number {next(self._notes)}?", filters=Filters(user_id=user)
        )
        return await self._one.recall.query.answer_query(self._scope, asked)

    async def write(self) -> object:
        """Write a memory that is like others of the user."""
        text = f"note {next(self._notes)} of the launch"
        return await self._one.memory.write.write_memory(self._scope, draft(text, user_id="u1", category="tasks"))

    async def list_newest(self) -> object:
        """List the newest memories of the tenant."""
        return await self._one.memory.read.list_memories(self._scope, MemoryListing(), None, 50)

    async def count_rows(self, request: Callable[[], Awaitable[object]]) -> dict[str, int]:
        """Return the rows and index entries of a request, by table. Earlier ones have warmed plans and caches."""
        for _ in range(6):  # the driver's plan is generic from the sixth on
            await request()
        before = await self._counters()
        await request()
        after = await self._counters()
        return {table: rows - before[table] for table, rows in after.items() if rows > before[table]}

    async def _counters(self) -> dict[str, int]:
        async with self._one.parts.uow.read(self._scope) as tx:
            await tx.fetchval("SELECT pg_stat_force_next_flush()")
        await self._sql.execute("SELECT pg_stat_clear_snapshot()")
        return {row["relname"]: int(row["rows"]) for row in await self._sql.fetch(ROWS)}


async def test_no_lookup_reads_the_whole_tenant_nor_other_tenants(
    one: Application, caller: Caller, small: Principal, sql: asyncpg.Connection
) -> None:
    large = Requests(one, sql, caller.scope)
    for request in (large.query_user, large.write, large.list_newest):
        rows = await large.count_rows(request)
        assert sum(rows.values()) < MOST, (request.__name__, rows)
    little = Requests(one, sql, small)
    for request in (little.query_user, little.query_tenant, little.write, little.list_newest):
        rows = await little.count_rows(request)
        assert sum(rows.values()) < MOST // 5, (request.__name__, rows)
