"""Chunks of long turns, and what becomes of them when their turn changes."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.config.tenant_policies import TenantPolicies
from app.domain.errors import WrongState
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.domain.trusted_time import TrustedTime
from app.storage.journal import Journal
from app.storage.retention.forgetting import ForgettingStorage
from app.usecases.retention.forgetting import ForgetMemories
from tests.factories import Caller, Clock, draft
from tests.usecases.sources.indexing import Indexing
from tests.usecases.stored import VECTORS, history_of

LONG = "\n\n".join(
    f"Paragraph {n} about quuxberry number {n}. {'Some more words about it. ' * 8}".strip() for n in range(12)
)
STATES = "SELECT m.state FROM chunks c JOIN memories m ON m.id = c.memory_id"


@pytest.fixture
def caller(indexing: Indexing) -> Caller:
    """The caller."""
    return indexing.caller


async def say(app: Application, scope: Principal, sql: asyncpg.Connection, text: str = LONG) -> UUID:
    """Store a turn, run its job, and return its memory."""
    fields = {"type": MemoryType.turn, "category": "activity", "thread_id": "t1", "role": "user", "actor_id": "maya"}
    stored = await app.memory.turns.store_turn(scope, draft(text, **fields))
    assert stored.id is not None
    assert await app.jobs.run.run_job(scope.tenant_id, stored.jobs[0], "w") == "done"
    return stored.id


async def run_waiting(app: Application, scope: Principal, sql: asyncpg.Connection) -> None:
    """Run the jobs that cut turns."""
    for row in await sql.fetch("SELECT id FROM jobs WHERE kind = 'turn_chunks' AND state = 'queued'"):
        assert await app.jobs.run.run_job(scope.tenant_id, row["id"], "w") == "done"


@pytest.mark.long
async def test_a_long_turn_that_is_written_as_a_memory_is_cut_too(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    fields = {"type": MemoryType.turn, "category": "activity", "thread_id": "t1", "role": "user"}
    await app.memory.write.write_memory(scope, draft("A short turn.", **fields))
    assert await sql.fetchval("SELECT count(*) FROM jobs WHERE kind = 'turn_chunks'") == 0
    written = await app.memory.write.write_memory(scope, draft(LONG, **fields))
    await run_waiting(app, scope, sql)
    turns = await sql.fetch("SELECT DISTINCT turn_id FROM chunks")
    assert [row["turn_id"] for row in turns] == [written.id]


async def places(sql: asyncpg.Connection) -> list[tuple[UUID, str]]:
    """Return memory and text of all chunks in order."""
    rows = await sql.fetch("SELECT m.id, m.text FROM chunks c JOIN memories m ON m.id = c.memory_id ORDER BY c.ordinal")
    return [(row["id"], row["text"]) for row in rows]


async def mentions(sql: asyncpg.Connection, word: str) -> list[str]:
    """Return the tables in which a row contains the word."""
    tables = await sql.fetch(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
    )
    return [
        row["relname"]
        for row in tables
        if await sql.fetchval(f"SELECT EXISTS (SELECT FROM {row['relname']} t WHERE t::text ILIKE $1)", f"%{word}%")
    ]


@pytest.mark.long
async def test_a_long_turn_gets_chunks_with_exact_positions(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    turn_id = await say(app, caller.scope, sql)
    rows = await sql.fetch(
        "SELECT c.*, m.* FROM chunks c JOIN memories m ON m.id = c.memory_id WHERE c.turn_id = $1 ORDER BY ordinal",
        turn_id,
    )
    assert len(rows) > 3
    origin = await sql.fetchval("SELECT origin FROM memories WHERE id = $1", turn_id)
    for row in rows:
        assert LONG[row["start_at"] : row["end_at"]] == row["text"]
        fields = ("type", "category", "thread_id", "role", "actor_id", "user_id", "origin", "source")
        values = ["chunk", "activity", "t1", "user", "maya", "maya", origin, {"turn_id": str(turn_id)}]
        assert [row[name] for name in fields] == values
    assert await sql.fetchval(f"SELECT count(*) FROM {VECTORS}") == 1 + len(rows)
    assert await sql.fetchval("SELECT rev FROM thread_revision") == 1
    await say(app, caller.scope, sql, "A short turn.")
    assert len(await places(sql)) == len(rows)


@pytest.mark.long
async def test_a_turn_is_cut_once_by_jobs_that_run_at_the_same_time(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    turn_id = await say(app, caller.scope, sql, "A short turn.")
    await app.memory.edit.patch_memory(caller.scope, turn_id, {"text": LONG}, version=None)
    cuts = await asyncio.gather(*(app.sources.cut_turns.cut_turn(caller.scope, turn_id) for _ in range(4)))
    assert sorted(cuts) == [0, 0, 0, len(await places(sql))]
    await run_waiting(app, caller.scope, sql)
    assert len(await places(sql)) == max(cuts) > 3


@pytest.mark.long
async def test_chunks_are_deleted_and_restored_with_their_turn(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    turn_id = await say(app, caller.scope, sql)
    before = await places(sql)
    deleted = await app.memory.edit.soft_delete_memory(caller.scope, turn_id)
    assert {row["state"] for row in await sql.fetch(STATES)} == {"soft_deleted"}
    assert await sql.fetchval(f"SELECT count(*) FROM {VECTORS} WHERE state = 'active'") == 0
    assert await sql.fetchval("SELECT count(DISTINCT purge_at) FROM memories") == 1
    assert deleted.purge_at is not None
    await app.memory.edit.restore_memory(caller.scope, turn_id)
    assert {row["state"] for row in await sql.fetch(STATES)} == {"active"}
    assert await sql.fetchval(f"SELECT count(*) FROM {VECTORS} WHERE state = 'active'") == 1 + len(before)
    await run_waiting(app, caller.scope, sql)
    assert await places(sql) == before
    rows = await history_of(sql, before[0][0])
    assert [(row["event"], row["actor"]) for row in rows] == [
        ("ADD", "system"),
        ("DELETE", caller.scope.actor_name),
        ("RESTORE", caller.scope.actor_name),
    ]


@pytest.mark.long
async def test_no_chunk_of_a_purged_turn_survives(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    turn_id = await say(app, caller.scope, sql)
    [(chunk_id, _text), *_others] = await places(sql)
    await app.memory.edit.purge_memory(caller.scope, turn_id)
    assert await mentions(sql, "quuxberry") == []
    assert await sql.fetchval("SELECT count(*) FROM memories") == 0
    rows = await history_of(sql, chunk_id)
    assert [(row["event"], row["actor"], row["meta"]) for row in rows] == [
        ("ADD", "system", {}),
        ("PURGE", caller.scope.actor_name, {}),
    ]


@pytest.mark.long
async def test_a_purge_after_the_time_to_restore_takes_the_chunks_along(
    app: Application, caller: Caller, sql: asyncpg.Connection, clock: Clock
) -> None:
    turn_id = await say(app, caller.scope, sql)
    await app.memory.edit.soft_delete_memory(caller.scope, turn_id)
    clock.move(days=60)
    report = await app.retention.forget.purge_memories(caller.scope)
    assert (report.counts, report.sample) == ({"memories": 1}, [turn_id])
    assert await mentions(sql, "quuxberry") == []


@pytest.mark.long
async def test_an_evicted_turn_hides_its_chunks(
    app: Application, caller: Caller, sql: asyncpg.Connection, clock: Clock
) -> None:
    first, _second = await say(app, caller.scope, sql), await say(app, caller.scope, sql)
    lifecycle = replace(app.parts.policies.defaults.lifecycle, max_entries=1)
    policies = TenantPolicies(replace(app.parts.policies.defaults, lifecycle=lifecycle))
    storage = ForgettingStorage(app.parts.uow, b"")
    evict = ForgetMemories(app.parts.uow, storage, Journal(app.parts.uow, "minilm_l6_v2", b""), policies, clock)
    assert (await evict.evict_thread(caller.scope, "maya", "t1")).sample == [first]
    hidden = {row["state"] for row in await sql.fetch(f"{STATES} WHERE c.turn_id = $1", first)}
    others = {row["state"] for row in await sql.fetch(f"{STATES} WHERE c.turn_id <> $1", first)}
    assert (hidden, others) == ({"soft_deleted"}, {"active"})


@pytest.mark.long
async def test_an_edited_turn_is_cut_again(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    turn_id = await say(app, caller.scope, sql)
    old = await places(sql)
    edited = LONG.replace("quuxberry", "zyxomel")
    await app.memory.edit.patch_memory(caller.scope, turn_id, {"text": edited}, version=None)
    assert await places(sql) == []
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE id = ANY ($1)", [chunk for chunk, _ in old]) == 0
    await run_waiting(app, caller.scope, sql)
    assert "".join(text for _id, text in await places(sql)).count("zyxomel") >= 12
    await app.memory.edit.patch_memory(caller.scope, turn_id, {"text": "Short now."}, version=None)
    await run_waiting(app, caller.scope, sql)
    assert await places(sql) == []


async def test_chunks_move_to_another_category_with_their_turn(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    turn_id = await say(app, caller.scope, sql)
    await app.memory.edit.patch_memory(caller.scope, turn_id, {"category": "knowledge"}, version=None)
    for table in ("memories", VECTORS):
        assert {row["category"] for row in await sql.fetch(f"SELECT category FROM {table}")} == {"knowledge"}


@pytest.mark.long
async def test_an_erased_turn_leaves_no_chunk(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    turn_id = await say(app, caller.scope, sql)
    await app.retention.erase.erase_user(caller.scope, "maya")
    assert await mentions(sql, "quuxberry") == []
    assert await app.sources.cut_turns.cut_turn(caller.scope, turn_id) == 0


@pytest.mark.long
async def test_chunks_are_no_entries_of_their_thread(
    app: Application, caller: Caller, sql: asyncpg.Connection, clock: Clock
) -> None:
    for _turn in range(2):
        await say(app, caller.scope, sql)
    chunks = len(await places(sql))
    assert chunks > 6
    storage, far = ForgettingStorage(app.parts.uow, b""), TrustedTime(clock.now() + timedelta(days=400))
    async with app.parts.uow.read(caller.scope) as tx:
        assert await storage.find_overflowing(tx, caller.scope, max_entries=2, limit=50) == []
        place = {"user_id": "maya", "thread_id": "t1"}
        assert await storage.find_thread_overflow(tx, caller.scope, max_entries=2, limit=50, **place) == []
        policy = app.parts.policies.defaults.lifecycle
        forgettable = await storage.find_forgettable(tx, caller.scope, policy=policy, now=far, limit=50)
    assert [memory.type for memory in forgettable] == [MemoryType.turn] * 2
    page = await app.chat.conversations.read_conversation(caller.scope, "maya", "t1", None, 50)
    assert [entry.type for entry in page.items] == [MemoryType.turn] * 2


@pytest.mark.long
async def test_a_chunk_cannot_be_edited_alone(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    await say(app, caller.scope, sql)
    [(chunk_id, _text), *_others] = await places(sql)
    for change in (
        app.memory.edit.patch_memory(caller.scope, chunk_id, {"text": "Another text."}, version=None),
        app.memory.edit.soft_delete_memory(caller.scope, chunk_id),
        app.memory.edit.purge_memory(caller.scope, chunk_id),
    ):
        with pytest.raises(WrongState, match="changes only with its file or turn"):
            await change
    own = await app.memory.write.write_memory(
        caller.scope, draft("A chunk that a caller wrote.", type=MemoryType.chunk)
    )
    assert own.id is not None
    await app.memory.edit.purge_memory(caller.scope, own.id)


@pytest.mark.long
async def test_a_conversation_is_deleted_with_the_chunks_of_its_turns(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await say(app, caller.scope, sql)
    deleted = await app.chat.conversations.delete_conversation(caller.scope, "maya", "t1")
    assert deleted.deleted == 1
    assert {row["state"] for row in await sql.fetch(STATES)} == {"soft_deleted"}
    await app.chat.conversations.delete_conversation(caller.scope, "maya", "t1", purge=True)
    assert await mentions(sql, "quuxberry") == []
