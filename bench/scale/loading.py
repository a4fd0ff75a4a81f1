"""Bulk load of made-up tenants: COPY without indexes, then the indexes. The rows bypass the journal.

The vectors of the large tenant are in the approximate index at once, as if the hourly job had run.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.storage.identity import new_id
from bench import workload
from bench.scale.tenants import RARE, SCARCE, USERS, Tenant, make_basis

MODEL = "all-MiniLM-L6-v2"
SPACE = "minilm_l6_v2"
TABLES = ("memories", f"vec_{SPACE}", "relations")
EDGES, FEW_EDGES = 5, 1
_MEMORY = (
    *("tenant_id", "id", "user_pk", "user_id", "thread_id", "seq", "agent_id", "run_id", "type", "category", "text"),
    *("text_hash", "importance", "pinned", "tags", "state", "metadata", "version", "created_at", "updated_at"),
    *("role", "language", "expires_at"),
)
_VECTOR = (
    *("tenant_id", "user_pk", "memory_id", "type", "category", "state", "thread_key", "embedding", "tokens"),
    "indexed",
)
_THREADS = """INSERT INTO thread_revision (tenant_id, thread_id, rev)
    SELECT DISTINCT $1::uuid, thread_id, 1 FROM memories WHERE tenant_id = $1 AND thread_id IS NOT NULL"""
_RELATION = ("tenant_id", "id", "from_id", "to_id", "strength")


@dataclass(slots=True)
class LoadFigures:
    """The cost of a load: rows, seconds of COPY, and seconds of each index by name; sizes in bytes by relation."""

    rows: int = 0
    copy_s: float = 0.0
    index_s: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)


async def load_tenants(
    sql: asyncpg.Connection, tenants: Sequence[Tenant], *, memory: str, say: Callable[[str], None]
) -> LoadFigures:
    """Load tenants, of which the first one is indexed. `memory` is the setting maintenance_work_mem for an index."""
    await register_vector(sql)
    await sql.execute("ALTER SYSTEM SET autovacuum = off")
    await sql.execute("SELECT pg_reload_conf()")
    await sql.execute("SET session_replication_role = replica; SET synchronous_commit = off")
    await sql.execute(f"SET maintenance_work_mem = '{memory}'; SET max_parallel_maintenance_workers = 1")
    figures = LoadFigures(sum(map(len, tenants)))
    indexes = await _drop_indexes(sql)
    started = time.perf_counter()
    for place, tenant in enumerate(tenants):
        await _copy_tenant(sql, tenant, indexed=place == 0, say=say)
        await sql.execute("SELECT recount_memories($1)", tenant.id)
        await sql.execute(_THREADS, tenant.id)
    figures.copy_s = time.perf_counter() - started
    for name, made in indexes:
        started = time.perf_counter()
        await sql.execute(made.replace(" ON ONLY ", " ON "))
        figures.index_s[name] = time.perf_counter() - started
        say(f"index {name}: {figures.index_s[name]:.0f} s")
    await sql.execute("ALTER SYSTEM RESET autovacuum")
    await sql.execute("SELECT pg_reload_conf()")
    started = time.perf_counter()
    await sql.execute("VACUUM (ANALYZE)")
    await sql.execute("CHECKPOINT")
    figures.index_s["VACUUM ANALYZE, CHECKPOINT"] = time.perf_counter() - started
    figures.sizes = await relation_sizes(sql)
    return figures


async def ids_beside(sql: asyncpg.Connection, tenant: UUID, count: int) -> list[UUID]:
    """Return ids of new tenants whose vectors share a partition with those of a tenant."""
    found = await sql.fetch(
        f"""WITH parts AS (SELECT count(*)::int AS count FROM pg_inherits WHERE inhparent = 'vec_{SPACE}'::regclass)
            SELECT i FROM parts, unnest($2::uuid[]) i WHERE EXISTS (
                SELECT FROM generate_series(0, parts.count - 1) r
                WHERE satisfies_hash_partition('vec_{SPACE}'::regclass, parts.count, r, $1::uuid)
                  AND satisfies_hash_partition('vec_{SPACE}'::regclass, parts.count, r, i)) LIMIT $3""",
        tenant,
        [new_id() for _ in range(100 * count)],
        count,
    )
    return [row["i"] for row in found]


async def relation_sizes(sql: asyncpg.Connection) -> dict[str, int]:
    """Return the bytes of the loaded tables (with TOAST) and of their indexes; partitions count to their parents."""
    rows = await sql.fetch(
        """WITH named AS (
               SELECT t::regclass AS named FROM unnest($1::text[]) t
               UNION ALL SELECT i.indexrelid FROM unnest($1::text[]) t JOIN pg_index i ON i.indrelid = t::regclass)
           SELECT named::text AS name, pg_table_size(named) + coalesce((SELECT sum(pg_table_size(p.relid))
               FROM pg_partition_tree(named) p WHERE p.relid <> named), 0) AS bytes FROM named""",
        list(TABLES),
    )
    return {row["name"]: int(row["bytes"]) for row in rows}


async def _drop_indexes(sql: asyncpg.Connection) -> list[tuple[str, str]]:
    """Drop the indexes without a constraint; return their names and definitions."""
    rows = await sql.fetch(
        """SELECT i.indexrelid::regclass::text AS name, pg_get_indexdef(i.indexrelid) AS made
           FROM unnest($1::text[]) t JOIN pg_index i ON i.indrelid = t::regclass
           WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid) ORDER BY 1""",
        list(TABLES),
    )
    await sql.execute(f"DROP INDEX {', '.join(row['name'] for row in rows)}")
    return [(row["name"], row["made"]) for row in rows]


async def _copy_tenant(sql: asyncpg.Connection, tenant: Tenant, *, indexed: bool, say: Callable[[str], None]) -> None:
    await sql.execute(
        "INSERT INTO users (tenant_id, user_id) SELECT $1, u FROM unnest($2::text[]) u", tenant.id, tenant.users
    )
    keys = {
        row["user_id"]: row["user_pk"]
        for row in await sql.fetch("SELECT user_id, user_pk FROM users WHERE tenant_id = $1", tenant.id)
    }
    basis = make_basis()
    started = time.perf_counter()
    for rows, vectors in tenant.chunks(basis):
        await _Chunk(tenant, keys, indexed).copy_rows(sql, rows, vectors)
        if rows.stop % 100_000 == 0:
            say(f"{rows.stop} memories copied, {rows.stop / (time.perf_counter() - started):.0f} a second")


class _Chunk:
    """Some rows of a tenant on their way into the database."""

    def __init__(self, tenant: Tenant, users: dict[str, int], indexed: bool) -> None:
        self._tenant = tenant
        self._users = users
        self._indexed = indexed
        self._memories: list[tuple[Any, ...]] = []
        self._vectors: list[tuple[Any, ...]] = []
        self._relations: list[tuple[Any, ...]] = []

    async def copy_rows(self, sql: asyncpg.Connection, rows: range, vectors: NDArray[np.float32]) -> None:
        """Make up the rows and copy them."""
        for row, vector in zip(rows, vectors, strict=True):
            self._add_row(row, vector)
        threads = [record[4] for record in self._memories]
        hashes = await sql.fetch("SELECT thread_key(t) AS key FROM unnest($1::text[]) t", threads)
        vectored = [(*one[:6], key["key"], *one[6:]) for one, key in zip(self._vectors, hashes, strict=True)]
        await sql.copy_records_to_table("memories", columns=_MEMORY, records=self._memories)
        await sql.copy_records_to_table(f"vec_{SPACE}", columns=_VECTOR, records=vectored)
        await sql.copy_records_to_table("relations", columns=_RELATION, records=self._relations)

    def _add_row(self, row: int, vector: NDArray[np.float32]) -> None:
        tenant = self._tenant
        note = workload.make_note(self._tenant.first + row)
        key = tenant.ids[row]
        user = tenant.users[int(tenant.owners[row])]
        place = tenant.place_of(row, EDGES if user in USERS else FEW_EDGES)
        rare = row % RARE == 0
        kind = "insight" if rare else "semantic" if place.thread_id is None else "turn"
        at = datetime.now(UTC) - timedelta(minutes=len(tenant) - row)
        run = "rare" if rare else None
        role = "tool" if rare else None if place.thread_id is None else ("user", "assistant")[row % 2]
        tags = [name for name, each in (("rare", RARE), ("scarce", SCARCE)) if row % each == 0]
        metadata = '{"kind": "rare", "score": 1}' if rare else "{}"
        hashed = (tenant.first + row).to_bytes(8)
        owner = (tenant.id, key, self._users[user], user, place.thread_id, place.seq, workload.AGENT, run)
        rest = (hashed, 1 + row % 4, False, tags, "active", metadata, 1, at, at)
        told = (role, "eo" if rare else "en", at + timedelta(days=3650) if rare else None)
        self._memories.append((*owner, kind, note.category, note.text, *rest, *told))
        named = (tenant.id, self._users[user], key, kind, note.category, "active")
        self._vectors.append((*named, HalfVector(vector), _TOKENS[row % len(_TOKENS)], self._indexed))
        self._relations += [(tenant.id, new_id(), str(key), str(other), 0.6) for other in place.before]


_TOKENS = [np.random.default_rng(n).integers(-60, 60, 13 * 96, np.int8).tobytes() for n in range(50)]
