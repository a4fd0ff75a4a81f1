"""The transactions of a connection that a move holds."""

import asyncio

from app.storage.clusters.move_session import OWNER, MoveSession, open_sessions
from app.storage.identity import new_id
from tests.clusters.moving import read_clusters
from tests.clusters.servers import ClusterServers
from tests.own_postgres import connected

SEEN = "SELECT mover_seen_at IS NOT NULL FROM cluster"


async def hold(session: MoveSession) -> None:
    """Keep a transaction open."""
    async with session.acting(OWNER, new_id()):
        await asyncio.Event().wait()


async def test_what_follows_a_cancelled_transaction_is_committed(two_clusters: ClusterServers) -> None:
    """A comparison that takes too long is cancelled at any place, also while its transaction begins."""
    first = read_clusters(two_clusters.file)["first"]
    async with connected(two_clusters.superusers["first"]) as sql, open_sessions(first) as [session]:
        for turns in range(1, 12):  # of the event loop: each answer of the database takes some
            await sql.execute("UPDATE cluster SET mover_seen_at = NULL")
            held = asyncio.create_task(hold(session))
            for _ in range(turns):
                await asyncio.sleep(0)
            held.cancel()
            await asyncio.gather(held, return_exceptions=True)
            await session.fetch_rows("see_mover")
            assert await sql.fetchval(SEEN), turns
