"""The rows that a purge leaves, and the columns that reading never changes (`docs/contract.md`, Retention)."""

import asyncio
from contextlib import AsyncExitStack

import asyncpg
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.errors import NotFound
from app.domain.filters import Filters
from app.ports import Embedder
from app.usecases.recall.request import Query
from tests.factories import Caller, Clock, draft
from tests.usecases.stored import VECTORS, edges, history_of, recorded, until_waiting

QUERY = Query(agent="supervisor", query="What does Maya drink?", filters=Filters(user_id="maya"))


@pytest.mark.long
async def test_a_purge_leaves_no_word_of_the_text_anywhere(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    neighbour = await app.memory.write.write_memory(
        caller.scope, draft("Maya drinks oat milk with zyxomel tea.", category="goals")
    )
    written = await app.memory.write.write_memory(caller.scope, draft("Maya drinks quuxberry milk.", thread_id="t1"))
    await app.memory.edit.patch_memory(caller.scope, written.id, {"text": "Maya drinks quuxberry juice."}, version=None)
    assert await edges(sql) == {(written.id, neighbour.id)}
    await app.recall.query.answer_query(caller.scope, QUERY)
    await app.parts.access.flush_pending()
    await app.memory.edit.purge_memory(caller.scope, written.id)
    assert [row["event"] for row in await history_of(sql, written.id)] == ["ADD", "LINK", "UPDATE", "LINK", "PURGE"]
    assert await edges(sql) == set()
    assert await sql.fetchval(f"SELECT count(*) FROM {VECTORS}") == 1
    tables = await sql.fetch(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
    )
    holding = [t["relname"] for t in tables if await _mentions(sql, t["relname"], "quuxb")]
    assert holding == []
    assert await _mentions(sql, "memories", "zyxomel")


async def _mentions(sql: asyncpg.Connection, table: str, word: str) -> bool:
    found = await sql.fetchval(f"SELECT count(*) FROM {table} AS t WHERE t::text LIKE $1", f"%{word}%")
    return bool(found)


async def test_a_purge_is_told_to_the_thread_without_the_text(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft(thread_id="t1"))
    await app.memory.edit.purge_memory(caller.scope, written.id)
    delta = await app.recall.delta.read_delta(caller.scope, "t1", 1, "supervisor")
    assert delta.header is not None
    assert delta.header.text.text.splitlines()[1:] == ["- −deleted: [Preferences]"]
    assert (delta.rev, delta.more) == (2, 0)
    whole = await app.recall.delta.read_delta(caller.scope, "t1", 0, "supervisor")
    assert (whole.rev, whole.header) == (2, None), "the delta does not tell an agent that never saw the memory"


async def test_a_purged_memory_is_gone_for_good(app: Application, caller: Caller) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft())
    await app.memory.edit.purge_memory(caller.scope, written.id)
    for edit in (
        app.memory.read.get_memory,
        app.memory.edit.restore_memory,
        app.memory.edit.purge_memory,
        app.memory.edit.soft_delete_memory,
    ):
        with pytest.raises(NotFound):
            await edit(caller.scope, written.id)
    assert (await app.memory.write.write_memory(caller.scope, draft())).action == "created"
    page = await app.memory.history.list_history(caller.scope, written.id, None, 10)
    assert [row.event for row in page.items] == ["PURGE", "ADD"]


async def test_a_soft_deleted_memory_can_be_purged(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft())
    await app.memory.edit.soft_delete_memory(caller.scope, written.id)
    await app.memory.edit.purge_memory(caller.scope, written.id)
    assert await sql.fetchval("SELECT count(*) FROM memories") == 0


async def test_reading_counts_without_touching_a_memory_its_vector_or_its_history(
    app: Application, caller: Caller, sql: asyncpg.Connection, clock: Clock
) -> None:
    milk = await app.memory.write.write_memory(caller.scope, draft(thread_id="t1"))
    await app.memory.write.write_memory(caller.scope, draft("Maya keeps two cats.", user_id="ben"))
    before = await recorded(sql)
    answers = await asyncio.gather(*(app.recall.query.answer_query(caller.scope, QUERY) for _ in range(3)))
    assert {item.memory.id for answer in answers for item in answer.items} == {milk.id}
    await app.parts.access.flush_pending()
    clock.move(hours=1)
    await app.recall.query.answer_query(caller.scope, QUERY)
    await app.parts.access.flush_pending()
    assert await recorded(sql) == before
    memory = await app.memory.read.get_memory(caller.scope, milk.id)
    assert (memory.hits, memory.version) == (4, 1)
    assert memory.last_accessed is not None
    assert memory.last_accessed > memory.updated_at
    assert await sql.fetchval("SELECT count(*) FROM memory_access") == 1
    counts = await app.operations.count_events.count_events(caller.scope, ("node", "op", "status"), None, None)
    assert {"node": "context", "op": "search", "status": "ok", "count": 4} in counts


async def test_what_comes_as_related_counts_as_read(app: Application, caller: Caller) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya plays chess on Sundays."))
    goal = await app.memory.write.write_memory(
        caller.scope, draft("Maya wants to win a chess tournament.", category="goals")
    )
    query = Query(agent="supervisor", query="plays chess on Sundays", top_k=1, filters=Filters(user_id="maya"))
    answer = await app.recall.query.answer_query(caller.scope, query)
    assert [item.memory.id for item in answer.related] == [goal.id]
    await app.parts.access.flush_pending()
    assert (await app.memory.read.get_memory(caller.scope, goal.id)).hits == 1


async def test_what_was_purged_before_the_counts_are_written_is_passed_over(app: Application, caller: Caller) -> None:
    gone = await app.memory.write.write_memory(caller.scope, draft())
    kept = await app.memory.write.write_memory(caller.scope, draft("Maya likes tea."))
    await app.recall.query.answer_query(caller.scope, QUERY)
    await app.memory.edit.purge_memory(caller.scope, gone.id)
    await app.parts.access.flush_pending()
    assert (await app.memory.read.get_memory(caller.scope, kept.id)).hits == 1


@pytest.mark.long
async def test_counts_in_the_middle_of_being_written_survive_a_stop(
    app: Application, settings: Settings, embedder: Embedder, caller: Caller, sql: asyncpg.Connection
) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft())
    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(build_application(settings, Doubles(embedder=embedder)))
        await other.recall.query.answer_query(caller.scope, QUERY)
        async with sql.transaction():
            await sql.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
            await until_waiting(sql, 1)
            stopping = asyncio.create_task(stack.aclose())
            await asyncio.sleep(0.2)
        await stopping
    assert (await app.memory.read.get_memory(caller.scope, written.id)).hits == 1
