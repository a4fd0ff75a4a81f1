"""Search over all users of a large tenant: approximate if that finds enough, exact otherwise.

The index counters show what really served a query; a separate EXPLAIN could differ.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import numpy as np
import pytest
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.principal import Principal
from app.domain.recall.candidates import Candidate
from app.storage.operations.vectors import VectorStorage
from app.storage.recall.search import Search, SearchStorage
from tests.conftest import Database
from tests.factories import Caller

ROWS, DIMENSION, WANTED = 20_000, 16, 50
READ_AT_MOST = 6_000
"""The number of memories that a search by words reads of a large tenant."""
SPACE = "tiny"
CATEGORIES = ("tasks", "goals", "projects")
MEMORIES = """
    INSERT INTO memories (tenant_id, id, user_pk, user_id, thread_id, run_id, type, category, text, text_hash,
                          importance, pinned, tags, state, metadata, version, created_at, updated_at)
    SELECT $1, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, u.user_pk, u.user_id, 't',
           CASE WHEN n % 500 = 0 THEN 'rare' END, 'semantic', CASE WHEN n % 400 = 1 THEN 'goals' ELSE 'tasks' END,
           'note ' || n || concat(CASE WHEN n % 3 = 0 THEN ' river' END, CASE WHEN n % 5 = 0 THEN ' boat' END,
                                  CASE WHEN n % 7 = 0 THEN ' lamp' END, CASE WHEN n % 1000 = 3 THEN ' fern' END),
           sha256(n::text::bytea), 1 + n % 4, n % 1000 = 2, '{}', 'active', '{}', 1, now(),
           '2026-01-01'::timestamptz + n * interval '1 minute'
    FROM generate_series(1, $2::int) n JOIN users u ON u.tenant_id = $1 AND u.user_id = 'u' || n % 40
"""


@dataclass(frozen=True, slots=True)
class Town:
    """A tenant with many memories, in a small space whose vectors are all indexed."""

    app: Application
    scope: Principal
    sql: asyncpg.Connection
    vectors: np.ndarray

    async def find(self, filters: Filters, at: int, categories: tuple[str, ...] = CATEGORIES) -> list[Candidate]:
        """Return the candidates near the memory with this number."""
        search = Search(filters, categories, "the of", self.vectors[at], WANTED, 0, exact=5000)
        async with self.app.parts.uow.calls(self.scope) as tx:
            found = await SearchStorage(SPACE).find_candidates(tx, self.scope, search)
            await tx.fetchval("SELECT pg_stat_force_next_flush()")  # without this, the counters change a second later
            return found

    async def nearest(self, at: int, condition: str = "true") -> set[UUID]:
        """Return the exact nearest neighbours."""
        rows = await self.sql.fetch(
            f"""SELECT m.id FROM memories m JOIN vec_{SPACE} v ON v.tenant_id = m.tenant_id AND v.memory_id = m.id
                WHERE m.tenant_id = $1 AND m.state = 'active' AND {condition} ORDER BY (v.embedding <=> $2) + 0, m.id
                LIMIT {WANTED}""",
            self.scope.tenant_id,
            HalfVector(self.vectors[at]),
        )
        return {row["id"] for row in rows}

    async def served_by(self) -> set[str]:
        """Return the kinds of the space's indexes that were used since the last call."""
        await self.sql.execute("SELECT pg_stat_force_next_flush()")
        await self.sql.execute("SELECT pg_stat_clear_snapshot()")
        rows = await self.sql.fetch(
            f"""SELECT CASE WHEN d.indexdef LIKE '%hnsw%' THEN 'hnsw' WHEN d.indexdef LIKE '%user_pk%' THEN 'covering'
                       WHEN d.indexdef LIKE '%NOT indexed%' THEN 'fresh' ELSE 'key' END AS kind,
                       sum(s.idx_scan) AS scans
                FROM pg_stat_user_indexes s JOIN pg_indexes d ON d.indexname = s.indexrelname
                WHERE s.relname LIKE 'vec_{SPACE}_p%' GROUP BY 1"""
        )
        counts = {row["kind"]: int(row["scans"]) for row in rows}
        used = {kind for kind, scans in counts.items() if scans > _SEEN.get(kind, 0)}
        _SEEN.update(counts)
        return used


_SEEN: dict[str, int] = {}


def clustered(rng: np.random.Generator, rows: int, dimension: int, latent: int = 8) -> np.ndarray:
    """Return unit vectors with few important directions, like real embeddings."""
    vectors = rng.standard_normal((rows, latent)) @ rng.standard_normal((latent, dimension))
    vectors += 0.1 * np.sqrt(latent) * rng.standard_normal((rows, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


async def fill(sql: asyncpg.Connection, scope: Principal, space: str, vectors: np.ndarray, *, indexed: bool) -> None:
    """Insert memories and vectors as a superuser, without journal and tripwire, then build the index at once."""
    await register_vector(sql)
    async with sql.transaction():
        await sql.execute("SET LOCAL session_replication_role = replica")
        people = [(scope.tenant_id, f"u{number}") for number in range(40)]
        await sql.executemany("INSERT INTO users (tenant_id, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING", people)
        await sql.execute(MEMORIES, scope.tenant_id, len(vectors))
        rows = await sql.fetch(
            "SELECT id, user_pk, category FROM memories WHERE tenant_id = $1 ORDER BY id", scope.tenant_id
        )
        drop = await sql.fetch(
            "SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS made FROM pg_index"
            f" WHERE indrelid = 'vec_{space}'::regclass AND pg_get_indexdef(indexrelid) LIKE '%hnsw%'"
        )
        for index in drop:
            await sql.execute(f"DROP INDEX {index['name']}")
        await sql.copy_records_to_table(
            f"vec_{space}",
            columns=("tenant_id", "user_pk", "memory_id", "type", "category", "state", "embedding", "indexed"),
            records=[
                (
                    scope.tenant_id,
                    row["user_pk"],
                    row["id"],
                    "semantic",
                    row["category"],
                    "active",
                    HalfVector(v),
                    indexed,
                )
                for row, v in zip(rows, vectors, strict=True)
            ],
        )
        for index in drop:
            await sql.execute(index["made"].replace(" ON ONLY ", " ON "))
    await sql.execute("VACUUM (ANALYZE)")


@pytest.fixture
def scope(caller: Caller) -> Principal:
    """The principal that owns the memories."""
    return caller.scope


@pytest.fixture
async def town(app: Application, scope: Principal, database: Database) -> AsyncIterator[Town]:
    """The filled tenant; building it takes a while."""
    sql = await asyncpg.connect(database.superuser)
    await sql.execute(f"SELECT add_embedding_space('{SPACE}', 'tiny', {DIMENSION}, 2)")
    vectors = clustered(np.random.default_rng(3), ROWS, DIMENSION)
    await fill(sql, scope, SPACE, vectors, indexed=True)
    made = Town(app, scope, sql, vectors)
    await made.served_by()
    yield made
    await sql.close()


async def _a_rare_filter_gets_all_there_are(town: Town) -> None:
    found = {c.id for c in await town.find(Filters(), 7)}
    assert len(found & await town.nearest(7)) >= 0.9 * WANTED
    assert "hnsw" in await town.served_by()
    shapes: dict[str, Filters] = {
        "m.run_id = 'rare'": Filters(run_id="rare"),
        "m.pinned": Filters(pinned=True),
        "m.importance >= 4 AND m.run_id = 'rare'": Filters(importance_min=4, run_id="rare"),
        "m.run_id = 'nobody'": Filters(run_id="nobody"),
        "m.user_id = 'u7' AND m.pinned": Filters(user_id="u7", pinned=True),
    }
    for condition, filters in shapes.items():
        assert {c.id for c in await town.find(filters, 11)} == await town.nearest(11, condition), condition
    common = {c.id for c in await town.find(Filters(importance_min=4), 11)}
    assert len(common) == WANTED
    assert common <= {row["id"] for row in await town.sql.fetch("SELECT id FROM memories WHERE importance >= 4")}


async def _each_shape_is_served_by_its_index(town: Town) -> None:
    await town.served_by()
    for categories, filters, needed, banned in (
        (CATEGORIES, Filters(), "hnsw", "covering"),
        (("goals",), Filters(), "key", "covering"),
        (CATEGORIES, Filters(user_id="u7"), "covering", "hnsw"),
    ):
        for at in (5, 6):
            await town.find(filters, at, categories)
        served = await town.served_by()
        assert needed in served, (categories, filters, served)
        assert banned not in served, (categories, filters, served)
        assert ("hnsw" in served) == (needed == "hnsw")
    rare = {c.id for c in await town.find(Filters(), 9, ("goals",))}
    assert rare == await town.nearest(9, "m.category = 'goals'")
    mine = {c.id for c in await town.find(Filters(user_id="u7"), 9)}
    assert mine == await town.nearest(9, "m.user_id = 'u7'")


async def _what_is_new_is_found_and_what_is_gone_is_not(town: Town) -> None:
    vectors = VectorStorage(town.app.parts.uow, SPACE)
    target = sorted(await town.nearest(3))[0]
    await town.sql.execute(
        f"UPDATE vec_{SPACE} SET indexed = false, embedding = $2 WHERE memory_id = $1",
        target,
        HalfVector(town.vectors[4]),
    )
    assert target in {c.id for c in await town.find(Filters(), 4)}
    assert await vectors.has_more_than(town.scope, 5000)
    assert [await vectors.index_vectors(town.scope, 50) for _ in range(2)] == [1, 0]
    assert target in {c.id for c in await town.find(Filters(), 4)}
    await town.sql.execute(f"UPDATE vec_{SPACE} SET state = 'soft_deleted' WHERE memory_id = $1", target)
    assert target not in {c.id for c in await town.find(Filters(), 4)}


async def _words_find(town: Town, query: str, limit: int, filters: str | None = None) -> dict[UUID, float]:
    async with town.app.parts.uow.read(town.scope) as tx:
        rows = await tx.fetch(
            "SELECT * FROM search_lexical(NULL, $1, $2, $3, $4)",
            query,
            CATEGORIES,
            filters and {"run_id": filters},
            limit,
        )
    return {row["memory_id"]: float(row["rank"]) for row in rows}


async def _all_with_a_word(town: Town, query: str, condition: str = "true") -> list[tuple[UUID, float]]:
    rows = await town.sql.fetch(
        f"""SELECT m.id, ts_rank(m.tsv, any_word($2)) AS rank FROM memories m
            WHERE m.tenant_id = $1 AND m.tsv @@ any_word($2) AND m.state = 'active' AND m.type <> 'chunk'
              AND {condition} ORDER BY 2 DESC, 1""",
        town.scope.tenant_id,
        query,
    )
    return [(row["id"], float(row["rank"])) for row in rows]


async def _words_that_tell(town: Town, scope: str, query: str, most: int) -> list[str] | None:
    telling: list[str] | None = await town.sql.fetchval("SELECT telling_words($1, $2, $3)::text[]", scope, query, most)
    return telling


async def _frequent_words_cost_little_and_hide_nothing_better(town: Town) -> None:
    scope = f"'_t{town.scope.tenant_id.hex}'"
    assert await _words_that_tell(town, scope, "lamps", 3000) is None
    [read, scoped] = await _words_that_tell(town, scope, "a boat with a lamp on the river, and ferns", 3000) or []
    assert "'fern'" in read.split(" | ")
    assert not {"'river'", "'boat'", scope} & set(read.split(" | "))
    assert scoped == f"{scope} & ( {read} )"
    await _words_find_the_best(town)
    for neighbours in (WANTED, READ_AT_MOST - 3 * WANTED):  # few of them, and so many that the own ones are cut off
        await _add_neighbours_with_all_words(town, neighbours)
        await _words_find_the_best(town)
    await town.sql.execute("VACUUM (ANALYZE) memories")
    [scoped] = await _words_that_tell(town, scope, "river boats", 3000) or []
    assert scoped.startswith(f"{scope} & ")
    await _words_find_the_best(town)
    assert len(await _words_find(town, "notes", WANTED)) == WANTED
    rare = await _all_with_a_word(town, "note river boat", "m.run_id = 'rare'")
    assert len(rare) == ROWS // 500
    assert await _words_find(town, "note river boat", WANTED, "rare") == pytest.approx(dict(rare))


async def _words_find_the_best(town: Town) -> None:
    for query in ("a boat with a lamp on the river, and ferns", "river boats", "note river boat"):
        ranked = await _all_with_a_word(town, query)
        found = await _words_find(town, query, WANTED)
        assert sorted(found.values(), reverse=True) == pytest.approx([rank for _id, rank in ranked[:WANTED]]), query
        assert {one: rank for one, rank in ranked if one in found} == pytest.approx(found)


async def _add_neighbours_with_all_words(town: Town, number: int) -> None:
    """Add memories of another tenant, which match better and are read first, and some chunks of the town."""
    other, ignored = UUID(int=1), "ON CONFLICT DO NOTHING"
    await town.sql.execute(f"INSERT INTO tenants (id, name) VALUES ($1, 'neighbour') {ignored}", other)
    await town.sql.execute(f"INSERT INTO users (tenant_id, user_id) VALUES ($1, 'u7') {ignored}", other)
    copy = """
        INSERT INTO memories (tenant_id, id, user_pk, user_id, type, category, text, text_hash, importance, pinned,
                              tags, state, metadata, version, created_at, updated_at)
        SELECT $1, id, user_pk, 'u7', $2, 'tasks', 'note boat river lamp fern', uuid_send(id), 1, false,
               '{}', 'active', '{}', 1, now(), now()
        FROM (SELECT user_pk_of($1, 'u7') AS user_pk, gen_random_uuid() AS id FROM generate_series(1, $3::int)) n
    """
    async with town.sql.transaction():
        await town.sql.execute("SET LOCAL session_replication_role = replica")
        await town.sql.execute(copy, other, "semantic", number)
        await town.sql.execute(copy, town.scope.tenant_id, "chunk", WANTED)
    await town.sql.execute("CLUSTER memories USING memories_pkey")


async def _many_small_tenants_do_not_make_words_slow(town: Town) -> None:
    """No index of all memories is read of a tenant that the planner takes for small."""
    await town.sql.execute(
        """INSERT INTO tenants (id, name) SELECT gen_random_uuid(), 'small ' || n FROM generate_series(1, 600) n;
           INSERT INTO users (tenant_id, user_id) SELECT id, 'u' FROM tenants WHERE name LIKE 'small %'"""
    )
    async with town.sql.transaction():
        await town.sql.execute("SET LOCAL session_replication_role = replica")
        await town.sql.execute(
            """INSERT INTO memories (tenant_id, id, user_pk, user_id, type, category, text, text_hash, importance,
                                     pinned, tags, state, metadata, version, created_at, updated_at)
               SELECT u.tenant_id, gen_random_uuid(), u.user_pk, 'u', 'semantic', 'tasks', 'a note', 'x', 1,
                      false, '{}', 'active', '{}', 1, now(), now()
               FROM users u JOIN tenants t ON t.id = u.tenant_id AND t.name LIKE 'small %'"""
        )
    await town.sql.execute("VACUUM (ANALYZE) memories")

    async def entries_read() -> int:
        await town.sql.execute("SELECT pg_stat_force_next_flush()")
        await town.sql.execute("SELECT pg_stat_clear_snapshot()")
        return int(
            await town.sql.fetchval(
                """SELECT sum(idx_tup_read) FROM pg_stat_user_indexes
                   WHERE relname = 'memories' AND indexrelname <> 'memories_tsv'"""
            )
        )

    before = await entries_read()
    user = await town.sql.fetchval("SELECT user_pk_of($1, 'u7')", town.scope.tenant_id)
    async with town.app.parts.uow.read(town.scope) as tx:
        found = await tx.fetch("SELECT * FROM search_lexical($1, 'a lamp', $2, NULL, 50)", user, CATEGORIES)
        await tx.fetchval("SELECT pg_stat_force_next_flush()")
    assert len(found) == 50
    assert await entries_read() - before < ROWS // 2


async def _another_tenant_finds_nothing(town: Town) -> None:
    other = Principal((await town.app.tenancy.tenants.create_tenant("another")).id)
    search = Search(Filters(), CATEGORIES, "the of", town.vectors[3], WANTED, 0, exact=0)
    async with town.app.parts.uow.calls(other) as tx:
        assert await SearchStorage(SPACE).find_candidates(tx, other, search) == []


@pytest.mark.long
async def test_a_large_tenant_is_searched_approximately_and_never_gets_less_than_there_is(town: Town) -> None:
    await _a_rare_filter_gets_all_there_are(town)
    await _each_shape_is_served_by_its_index(town)
    await _what_is_new_is_found_and_what_is_gone_is_not(town)
    await _frequent_words_cost_little_and_hide_nothing_better(town)
    await _another_tenant_finds_nothing(town)
    await _many_small_tenants_do_not_make_words_slow(town)


async def test_wide_vectors_are_compared_by_their_signs_first(
    app: Application, scope: Principal, database: Database
) -> None:
    sql = await asyncpg.connect(database.superuser)
    await sql.execute("SELECT add_embedding_space('wide', 'wide', 1536, 2)")
    vectors = clustered(np.random.default_rng(5), 4000, 1536, 24)
    await fill(sql, scope, "wide", vectors, indexed=True)
    ids = [row["id"] for row in await sql.fetch("SELECT id FROM memories ORDER BY id")]
    right = 0
    for at in range(0, 400, 20):
        near = {ids[n] for n in np.argsort(-(vectors @ vectors[at]), kind="stable")[:WANTED]}
        search = Search(Filters(), CATEGORIES, "the of", vectors[at], WANTED, 0)
        async with app.parts.uow.calls(scope) as tx:
            found = await SearchStorage("wide").find_candidates(tx, scope, search)
        right += len({c.id for c in found} & near)
    assert right >= 0.99 * 20 * WANTED
    await sql.close()
