"""Drills on a primary and its standby: writers who read what they wrote, and a primary that is killed."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.errors import MnemaError
from app.domain.filters import Filters
from app.domain.memory.change_feed import ChangeFilter
from app.domain.memory.listing import MemoryListing
from app.domain.paging import encode_change_cursor
from app.usecases.recall.request import Query
from tests.api.route_catalog import CHAT_READS, READS, fill_places, guarded
from tests.factories import Caller, draft, make_caller, replica
from tests.standby import LONG_S, NAME, StreamingPair, until
from tests.storage.building import HashedEmbedder

pytestmark = pytest.mark.xdist_group("replicas")
WRITERS = 8
MAYAS = ChangeFilter("maya")
ON_PRIMARY = frozenset(
    {
        "GET /conversations/{conversation_id}/active-set",  # its changes begin with the same read
        "GET /changes",  # asks which transactions run, and a standby does not know
    }
)
"""Reading routes that no replica answers."""


def settings_of(pair: StreamingPair, home: Path, url: str) -> Settings:
    """Return settings of an installation that writes at `url` and reads on the standby."""
    return Settings(
        database_url=SecretStr(url),
        read_database_url=SecretStr(pair.app_url(pair.copy)),
        read_wait_s=0.05,
        secret_key=SecretStr("the tests' own, and long enough for it"),
        home=home,
        pool_min=1,
    )


@asynccontextmanager
async def opened(pair: StreamingPair, home: Path, url: str) -> AsyncIterator[Application]:
    """Open an application that writes at `url` and reads on the standby."""
    async with build_application(settings_of(pair, home, url), Doubles(embedder=HashedEmbedder())) as app:
        yield app


def count_reads(app: Application, place: str) -> int:
    """Return the number of reads that the replica or the primary answered, as the metrics tell it."""
    found = re.search(rf'^mnema_reads_total{{place="{place}"}} (\d+)', app.parts.metrics.render_text().decode(), re.M)
    return int(found[1]) if found else 0


async def write_and_read(app: Application, caller: Caller, number: int, ended: asyncio.Event) -> list[str]:
    """Write memories and read each back in three ways, until one answer is stale; return the stale ones."""
    stale, user = [], f"user {number}"
    while not ended.is_set() and not stale:
        text = f"{uuid4()} {uuid4()}"  # like no other text, so that nothing is merged
        written = await app.memory.write.write_memory(caller.scope, draft(text, user_id=user))
        assert written.id is not None
        try:
            await app.memory.read.get_memory(caller.scope, written.id)
        except MnemaError as error:
            stale.append(f"get: {error.code}")
        listing = MemoryListing(filters=Filters(user))
        page = await app.memory.read.list_memories(caller.scope, listing, None, 1)
        if [memory.id for memory in page.items] != [written.id]:
            stale.append("list")
        query = Query("supervisor", text, filters=Filters(user), top_k=3, min_relevance=0.0)
        if written.id not in {
            item.memory.id for item in (await app.recall.query.answer_query(caller.scope, query)).items
        }:
            stale.append("query")
    return stale


@pytest.mark.long
async def test_eight_writers_read_their_own_writes(pair: StreamingPair, tmp_path: Path) -> None:
    async with opened(pair, tmp_path, pair.app_url(pair.source)) as app:
        caller, ended = await make_caller(app), asyncio.Event()
        writers = [asyncio.create_task(write_and_read(app, caller, n, ended)) for n in range(WRITERS)]

        async def answers_more(place: str, before: int) -> None:
            async def has_answered() -> bool:
                return count_reads(app, place) >= before + 5 * WRITERS or any(writer.done() for writer in writers)

            await until(has_answered)

        try:
            for _ in range(2):
                await answers_more("replica", count_reads(app, "replica"))
                async with pair.paused():
                    await answers_more("primary", count_reads(app, "primary"))
                    assert "replica 1: it has not replayed" in (await app.operations.readiness.run_checks())["replicas"]
            await answers_more("replica", count_reads(app, "replica"))
            assert (await app.operations.readiness.run_checks())["replicas"] == "ok"
        finally:
            ended.set()
        assert await asyncio.gather(*writers) == [[]] * WRITERS


@pytest.mark.long
async def test_every_reading_route_reads_on_the_replica(pair: StreamingPair, tmp_path: Path) -> None:
    settings = settings_of(pair, tmp_path, pair.app_url(pair.source)).model_copy(update={"read_wait_s": LONG_S})
    async with replica(settings, Doubles(embedder=HashedEmbedder())) as (url, app):
        caller, elsewhere = await make_caller(app), set()
        async with caller.client(url) as client:
            for operation in await guarded(client):
                if operation.name in READS | CHAT_READS:
                    before = count_reads(app, "replica")
                    answer = await operation.call(client, fill_places(str(uuid4())))
                    assert answer.status_code < 500, (operation.name, answer.text)
                    if count_reads(app, "replica") == before:
                        elsewhere.add(operation.name)
        assert elsewhere == ON_PRIMARY
        assert count_reads(app, "primary") == 0


async def test_a_promoted_standby_has_every_acknowledged_write(pair: StreamingPair, tmp_path: Path) -> None:
    async with pair.on_primary() as primary:
        await primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{NAME}'")
        await primary.execute("SELECT pg_reload_conf()")
        await until(lambda: primary.fetchval("SELECT bool_or(sync_state = 'sync') FROM pg_stat_replication"))
    url = pair.app_url(pair.source, pair.copy, options="?target_session_attrs=read-write")
    async with opened(pair, tmp_path, url) as app:
        acknowledged: list[str] = []
        reader = await make_caller(app)
        first = await app.memory.write.write_memory(reader.scope, draft())
        changes = app.memory.changes
        cursor = encode_change_cursor((await changes.read_page(reader.scope, MAYAS, None, 10)).position)

        async def write_until_it_fails(number: int) -> None:
            for count in range(1_000_000):
                name = f"tenant {number}-{count}"
                try:
                    await app.tenancy.tenants.create_tenant(name)
                except MnemaError:
                    return
                acknowledged.append(name)

        writers = [asyncio.create_task(write_until_it_fails(number)) for number in range(4)]

        async def has_written() -> bool:
            return len(acknowledged) >= 100

        await until(has_written)
        pair.kill_primary()
        await asyncio.gather(*writers)
        async with pair.on_standby() as standby:
            assert await standby.fetchval("SELECT pg_promote()")
        async with asyncio.timeout(LONG_S):
            stored = {tenant.name for tenant in await app.tenancy.tenants.list_tenants()}
        assert set(acknowledged) <= stored
        caller = await make_caller(app)
        written = await app.memory.write.write_memory(caller.scope, draft())
        assert written.id is not None
        assert await app.memory.read.get_memory(caller.scope, written.id)
        await app.memory.write.write_memory(reader.scope, draft("Maya plays chess."))
        found = await changes.read_page(reader.scope, MAYAS, cursor, 10, with_memories=True)
        assert "Maya plays chess." in {memory.text for memory in found.memories.values()}, "its cursor is still good"
        assert str(first.id) not in {event.memory_id for event in found.events}
