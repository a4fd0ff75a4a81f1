"""Counts and checksums of a tenant's rows in two clusters.

A checksum adds the hashes of the rows as texts, without the columns that PostgreSQL computes. Both clusters must run on
machines of the same byte order.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from app.storage.clusters.move_session import MOVER, MoveCluster, MoveSession, open_sessions

CONNECTIONS: Final = 3
"""The connections to each cluster that a comparison opens."""
_COUNT: Final = 'SELECT count(*) FROM public."{table}" WHERE tenant_id = $1'
_SUM: Final = """
SELECT count(*) AS rows, coalesce(sum(hashtextextended(r::text, 0)), 0)::text AS sum
FROM (SELECT {columns} FROM public."{table}" WHERE tenant_id = $1) r
"""
_PLAIN: Final = (
    "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET extra_float_digits = 1"
)
Sums = dict[str, tuple[int, str]]


async def count_rows(session: MoveSession, tenant_id: UUID, tables: Sequence[str]) -> dict[str, int]:
    """Return the number of the tenant's rows in each table."""
    async with session.acting(MOVER) as connection:
        return {table: await connection.fetchval(_COUNT.format(table=table), tenant_id) for table in tables}


class Comparison:
    """Open connections to both clusters of a move, which compare the tenant's rows."""

    def __init__(self, sessions: Sequence[MoveSession], tables: Mapping[str, Sequence[str]]) -> None:
        self._sides = (sessions[:CONNECTIONS], sessions[CONNECTIONS:])
        self._tables = tables

    async def find_differences(self, tenant_id: UUID, largest: Sequence[str] = ()) -> list[str]:
        """Return the names of the tables that differ. `largest` tables are read first."""
        order = [*largest, *(name for name in self._tables if name not in set(largest))]
        here, there = await asyncio.gather(*(self._sum_tables(side, order, tenant_id) for side in self._sides))
        return sorted(name for name in order if here[name] != there[name])

    async def _sum_tables(self, sessions: Sequence[MoveSession], order: Sequence[str], tenant_id: UUID) -> Sums:
        waiting = list(reversed(order))
        sums: Sums = {}

        async def sum_next(session: MoveSession) -> None:
            async with session.acting(MOVER) as connection:
                while waiting:
                    table = waiting.pop()
                    columns = ", ".join(self._tables[table])
                    row = await connection.fetchrow(_SUM.format(table=table, columns=columns), tenant_id)
                    sums[table] = row["rows"], row["sum"]

        await asyncio.gather(*(sum_next(session) for session in sessions))
        return sums


@asynccontextmanager
async def open_comparison(
    source: MoveCluster, target: MoveCluster, tables: Mapping[str, Sequence[str]]
) -> AsyncIterator[Comparison]:
    """Open the connections of a comparison."""
    clusters = [source] * CONNECTIONS + [target] * CONNECTIONS
    async with open_sessions(*clusters) as sessions:
        for session in sessions:
            await session.connection.execute(_PLAIN)
        yield Comparison(sessions, tables)
