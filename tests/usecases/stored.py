"""Helpers that read and lock rows in the database itself."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray

VECTORS = "vec_minilm_l6_v2"


async def history_of(sql: asyncpg.Connection, memory_id: UUID | None) -> list[asyncpg.Record]:
    """Return the memory's history, oldest first."""
    return await sql.fetch(
        "SELECT event, old_ref, new_ref, actor, meta FROM history WHERE memory_id = $1 ORDER BY ts, id", str(memory_id)
    )


async def events_of(sql: asyncpg.Connection) -> list[tuple[str, str, str]]:
    """Return node, op and status of every operational event, oldest first."""
    rows = await sql.fetch("SELECT node, op, status FROM events ORDER BY id")
    return [tuple(row) for row in rows]


async def active_texts(sql: asyncpg.Connection, user_id: str = "maya") -> list[str]:
    """Return the texts of the user's active memories, sorted."""
    rows = await sql.fetch("SELECT text FROM memories WHERE user_id = $1 AND state = 'active' ORDER BY text", user_id)
    return [row["text"] for row in rows]


async def edges(sql: asyncpg.Connection) -> set[tuple[UUID, UUID]]:
    """Return every relation as (from, to). Fail if two memories have two relations, in either direction."""
    pairs = [
        (UUID(row["from_id"]), UUID(row["to_id"])) for row in await sql.fetch("SELECT from_id, to_id FROM relations")
    ]
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    return set(pairs)


async def vector_of(sql: asyncpg.Connection, memory_id: UUID | None) -> NDArray[np.float32]:
    """Return the memory's stored embedding."""
    value = await sql.fetchval(f"SELECT embedding FROM {VECTORS} WHERE memory_id = $1", memory_id)
    return value.to_numpy().astype(np.float32)


async def recorded(sql: asyncpg.Connection) -> dict[str, Any]:
    """Return the row counts of the journal's tables, and the physical version of every memory and vector."""
    counts = {
        table: await sql.fetchval(f"SELECT count(*) FROM {table}")
        for table in ("history", "change_log", "relations", "thread_revision")
    }
    versions = await sql.fetch("SELECT id, xmin::text AS xmin, version FROM memories ORDER BY id")
    vectors = await sql.fetch(f"SELECT memory_id, xmin::text AS xmin FROM {VECTORS} ORDER BY memory_id")
    return counts | {"memories": [tuple(r) for r in versions], "vectors": [tuple(r) for r in vectors]}


@asynccontextmanager
async def locked(sql: asyncpg.Connection, memory_id: UUID | None) -> AsyncIterator[None]:
    """Lock the memory's row. Writers wait, and go on in the order of their requests when the block ends."""
    async with sql.transaction():
        await sql.execute("SELECT 1 FROM memories WHERE id = $1 FOR UPDATE", memory_id)
        yield


async def until_waiting(sql: asyncpg.Connection, number: int) -> None:
    """Wait until `number` connections wait for a lock."""
    async with asyncio.timeout(20):
        while True:
            await sql.execute(
                "SELECT pg_stat_clear_snapshot()"
            )  # within a transaction the view keeps its first snapshot
            waiting = await sql.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if waiting >= number:
                return
            await asyncio.sleep(0.01)


async def in_line(sql: asyncpg.Connection, memory_id: UUID | None, *calls: Any) -> Sequence[Any]:
    """Start the calls while the memory is locked, each after the one before waits. Return results or errors."""
    async with locked(sql, memory_id):
        tasks = []
        for call in calls:
            tasks.append(asyncio.create_task(call))
            await until_waiting(sql, len(tasks))
    return await asyncio.gather(*tasks, return_exceptions=True)
