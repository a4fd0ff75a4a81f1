"""Changes of the approximate index: some memories get other vectors, enter it again, and it is vacuumed."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncpg
import numpy as np
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from bench import cpu_time
from bench.scale.loading import SPACE, relation_sizes
from bench.scale.shapes import TENANT_DENSE, Line, ShapeBench, Truth
from bench.scale.tenants import CHUNK, make_basis, make_vectors

BATCH = 50
"""The number of vectors that the hourly job puts into the index in one transaction."""


@dataclass(frozen=True, slots=True)
class UpkeepLine:
    """A step, its seconds and CPU seconds of PostgreSQL, then a search of the tenant and the bytes of the index."""

    rows: int
    step: str
    changed: int
    seconds: float
    cpu_s: float
    search: Line
    index_bytes: int


async def measure_upkeep(
    sql: asyncpg.Connection, bench: ShapeBench, truth: Truth, changed: int, say: Callable[[str], None]
) -> list[UpkeepLine]:
    """Give `changed` memories of the tenant other vectors, index them, and vacuum. Autovacuum does not come between."""
    await register_vector(sql)
    tables = [
        row["name"]
        for row in await sql.fetch(
            f"SELECT relid::regclass::text AS name FROM pg_partition_tree('vec_{SPACE}'::regclass) WHERE isleaf"
        )
    ]
    for table in tables:
        await sql.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    lines: list[UpkeepLine] = []
    pid = await sql.fetchval("SELECT pg_backend_pid()")

    async def measure(step: str, work: Callable[[], Awaitable[object]] | None) -> None:
        say(f"{len(truth.tenant)}: {step}")
        started = time.perf_counter()
        cpu = cpu_time.thread_seconds(pid)
        if work is not None:
            await work()
        took = time.perf_counter() - started, cpu_time.thread_seconds(pid) - cpu
        [line] = await bench.measure_shapes([TENANT_DENSE])
        sizes = await relation_sizes(sql)
        lines.append(UpkeepLine(len(truth.tenant), step, changed, *took, line, sizes[f"vec_{SPACE}_embedding_idx"]))

    await measure("as loaded", None)
    await measure("changed", lambda: _change_vectors(sql, truth, changed))
    await measure("indexed", lambda: _index_vectors(sql, truth))
    await measure("vacuumed", lambda: sql.execute(f"VACUUM (ANALYZE) vec_{SPACE}"))
    for table in tables:
        await sql.execute(f"ALTER TABLE {table} RESET (autovacuum_enabled)")
    return lines


async def _change_vectors(sql: asyncpg.Connection, truth: Truth, changed: int) -> None:
    rng = np.random.default_rng(changed)
    rows = np.sort(rng.choice(len(truth.tenant), changed, replace=False))
    vectors = make_vectors(rng, make_basis(), changed)
    truth.change_vectors(rows, vectors)
    for start in range(0, changed, CHUNK):
        await sql.executemany(
            f"UPDATE vec_{SPACE} SET embedding = $3, indexed = false WHERE tenant_id = $1 AND memory_id = $2",
            [
                (truth.tenant.id, truth.tenant.ids[int(row)], HalfVector(vector))
                for row, vector in zip(rows[start : start + CHUNK], vectors[start : start + CHUNK], strict=True)
            ],
        )


async def _index_vectors(sql: asyncpg.Connection, truth: Truth) -> None:
    while await sql.fetchval(f"SELECT index_vectors_{SPACE}($1, {BATCH})", truth.tenant.id):
        pass
