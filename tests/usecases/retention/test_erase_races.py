"""Erasures of a user during writes for the same user: each is complete and leaves no text behind."""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.changes import Observation
from app.domain.errors import DuplicateText, ErasedText, NotFound, WrongState
from app.domain.filters import Filters
from app.domain.idempotency import IdempotencyKey
from app.domain.jobs.job import JobKind, JobPolicy, NewJob
from app.domain.memory.memory import MemoryType
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.storage.access_log import AccessLog
from app.storage.jobs.jobs import JobStorage
from app.storage.journal import KeyRecord
from app.usecases.recall.request import Query
from tests.factories import Caller, Clock, draft
from tests.storage.building import Gate, journal_of
from tests.usecases.crowd import SeededEmbedder

LOST = (NotFound, ErasedText, WriteContention, DuplicateText, WrongState)
"""Errors that a writer may get if another request was first."""

WRITERS = 8
ROUNDS = 4
ORPHANS = """
    SELECT 'history' AS place, memory_id FROM history
        WHERE memory_id NOT IN (SELECT id::text FROM memories)
          AND (meta <> '{}' OR memory_id NOT IN (SELECT memory_id FROM history WHERE event = 'PURGE'))
    UNION ALL SELECT 'change_log', memory_id FROM change_log
        WHERE meta <> '{}' AND memory_id NOT IN (SELECT id::text FROM memories)
    UNION ALL SELECT 'relations', from_id FROM relations
        WHERE from_id NOT IN (SELECT id::text FROM memories) OR to_id NOT IN (SELECT id::text FROM memories)
    UNION ALL SELECT 'idempotency_keys', key FROM idempotency_keys
        WHERE response->>'id' IS NOT NULL AND response->>'id' NOT IN (SELECT id::text FROM memories)
    UNION ALL SELECT 'no vector', id::text FROM memories
        WHERE id NOT IN (SELECT memory_id FROM vec_minilm_l6_v2)
    UNION ALL SELECT 'no history', id::text FROM memories
        WHERE id::text NOT IN (SELECT memory_id FROM history WHERE event = 'ADD' AND meta ? 'after')
    UNION ALL SELECT 'a user without memories', user_id FROM users u
        WHERE NOT EXISTS (SELECT 1 FROM memories m WHERE m.user_pk = u.user_pk)
"""
"""A query for rows that no erasure may leave: text of a deleted memory, or a memory without its journal rows."""


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model: only equal texts are near each other."""
    return SeededEmbedder()


@pytest.fixture
async def gate(sql: asyncpg.Connection) -> Gate:
    """A closed gate before every commit by the actor `slow`."""
    made = Gate(sql)
    await made.install()
    return made


def key(name: str) -> IdempotencyKey:
    """Return a caller's idempotency key."""
    return IdempotencyKey("POST /memory", name, b"body")


async def orphans(sql: asyncpg.Connection) -> list[tuple[str, str]]:
    """Return the rows that ORPHANS finds, as texts."""
    return [tuple(row) for row in await sql.fetch(ORPHANS)]


async def traces(sql: asyncpg.Connection, word: str) -> list[str]:
    """Return the tables in which any column contains the word."""
    found = []
    for table in ("memories", "history", "change_log", "idempotency_keys", "events", "jobs"):
        if await sql.fetchval(f"SELECT count(*) FROM {table} t WHERE t::text ILIKE '%{word}%'"):
            found.append(table)
    return found


async def test_a_change_that_has_not_committed_yet_is_erased_with_the_rest(
    app: Application, caller: Caller, sql: asyncpg.Connection, gate: Gate
) -> None:
    fact = await app.memory.write.write_memory(caller.scope, draft("Maya lives in Lisbon.", thread_id="t"))
    assert fact.id is not None
    slow = replace(caller.scope, agent="slow")
    changing = asyncio.create_task(
        app.memory.edit.patch_memory(slow, fact.id, {"text": "Maya lives in Zanzibar."}, version=None)
    )
    await gate.waiting(1)
    erasing = asyncio.create_task(app.retention.erase.erase_user(caller.scope, "maya"))
    await gate.waiting(2)
    await gate.open()
    await asyncio.gather(changing, erasing)
    assert await traces(sql, "zanzibar") == []
    assert await orphans(sql) == []
    again = await app.memory.write.write_memory(caller.scope, draft("Maya lives in Zanzibar."))
    assert (again.action, again.reason) == ("skipped", "erased")


async def test_a_new_memory_that_has_not_committed_yet_is_erased_with_the_rest(
    app: Application, caller: Caller, sql: asyncpg.Connection, gate: Gate
) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya lives in Lisbon."))
    new = draft("Maya keeps a zebra.", thread_id="t", agent_id="slow")
    writing = asyncio.create_task(app.memory.write.write_memory(caller.scope, new, key=key("zebra")))
    await gate.waiting(1)
    erasing = asyncio.create_task(app.retention.erase.erase_user(caller.scope, "maya"))
    await gate.waiting(2)
    await gate.open()
    await asyncio.gather(writing, erasing)
    assert await traces(sql, "zebra") == []
    assert await orphans(sql) == []


@pytest.mark.long
async def test_a_write_does_not_wait_for_a_whole_erasure_and_others_go_on(
    app: Application, caller: Caller, gate: Gate
) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya lives in Lisbon."))
    erasing = asyncio.create_task(app.retention.erase.erase_user(replace(caller.scope, agent="slow"), "maya"))
    await gate.waiting(1)
    writing = [
        app.memory.write.write_memory(caller.scope, draft("Maya sings.")),
        app.memory.turns.store_turn(caller.scope, draft("I sing.", type=MemoryType.turn, role="user", thread_id="t")),
        app.memory.write.write_memory(caller.scope, draft("Ben sings.", user_id="ben")),
    ]
    *refused, other = await asyncio.gather(*writing, return_exceptions=True)
    assert [getattr(error, "code", error) for error in refused] == ["data_locked", "data_locked"]
    assert other.id is not None  # type: ignore[union-attr]  # it is what the write returned
    assert not erasing.done(), "it waits as long as it needs"
    await gate.open()
    await erasing
    assert (await app.memory.write.write_memory(caller.scope, draft("Maya sings."))).action == "created"


async def test_a_write_that_began_before_the_erasure_ended_meets_it(
    app: Application, caller: Caller, sql: asyncpg.Connection, gate: Gate
) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya lives in Lisbon.", thread_id="t"))
    erasing = asyncio.create_task(app.retention.erase.erase_user(replace(caller.scope, agent="slow"), "maya"))
    await gate.waiting(1)
    writes = [draft("maya lives in LISBON"), draft("Maya lives in Faro.", type=MemoryType.turn, category="activity")]
    writing = [asyncio.create_task(app.memory.write.write_memory(caller.scope, new)) for new in writes]
    await gate.waiting(3)
    await gate.open()
    await erasing
    assert [(w.action, w.reason) for w in await asyncio.gather(*writing)] == [("skipped", "erased"), ("created", None)]
    assert await orphans(sql) == []


REV = "SELECT rev FROM thread_revision WHERE thread_id = 't'"


async def test_a_thread_in_which_another_is_being_stored_keeps_its_id(
    app: Application, caller: Caller, sql: asyncpg.Connection, gate: Gate
) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya lives in Lisbon.", thread_id="t"))
    new = draft("Ben lives in Faro.", user_id="ben", thread_id="t", agent_id="slow")
    writing = asyncio.create_task(app.memory.write.write_memory(caller.scope, new))
    await gate.waiting(1)
    erasing = asyncio.create_task(app.retention.erase.erase_user(caller.scope, "maya"))
    await gate.waiting(2)
    await gate.open()
    await writing
    assert (await erasing).counts["threads_renamed"] == 0
    assert await sql.fetchval(REV) == 2


async def test_a_thread_that_another_enters_while_its_id_goes_begins_anew(
    app: Application, caller: Caller, sql: asyncpg.Connection, gate: Gate
) -> None:
    for text in ("Maya lives in Lisbon.", "Maya plays chess."):
        await app.memory.write.write_memory(caller.scope, draft(text, thread_id="t"))
    erasing = asyncio.create_task(app.retention.erase.erase_user(replace(caller.scope, agent="slow"), "maya"))
    await gate.waiting(1)
    new = draft("Ben lives in Faro.", user_id="ben", thread_id="t")
    writing = asyncio.create_task(app.memory.write.write_memory(caller.scope, new))
    await gate.waiting(2)
    await gate.open()
    await asyncio.gather(erasing, writing)
    assert await sql.fetchval(REV) == 1
    assert [row["rev"] for row in await sql.fetch("SELECT rev FROM change_log WHERE thread_id = 't'")] == [1]


async def test_a_query_that_began_before_the_erasure_ended_leaves_no_cursor_that_names_the_person(
    app: Application, caller: Caller, sql: asyncpg.Connection, gate: Gate
) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya lives in Lisbon.", thread_id="t"))
    erasing = asyncio.create_task(app.retention.erase.erase_user(replace(caller.scope, agent="slow"), "maya"))
    await gate.waiting(1)
    query = Query("supervisor", "Lisbon", filters=Filters(user_id="maya"), thread_id="t")
    asking = asyncio.create_task(app.recall.query.answer_query(caller.scope, query))
    await gate.waiting(2)
    await gate.open()
    await asyncio.gather(erasing, asking)
    assert await sql.fetchval("SELECT count(*) FROM delta_cursors") == 0


async def test_the_record_of_a_write_that_stores_nothing_is_waited_for_and_goes(
    app: Application, caller: Caller, sql: asyncpg.Connection, gate: Gate
) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya lives in Lisbon."))
    held, go = asyncio.Event(), asyncio.Event()

    async def skip() -> None:
        async with app.parts.uow.write(caller.scope) as tx:
            record = KeyRecord(key("skipped"), {"id": None, "action": "skipped"}, "maya")
            await journal_of(app.parts.uow).record(caller.scope, [], keys=[record], tx=tx)
            held.set()
            await go.wait()

    skipping = asyncio.create_task(skip())
    await held.wait()
    erasing = asyncio.create_task(app.retention.erase.erase_user(caller.scope, "maya"))
    await gate.waiting(1)
    go.set()
    await asyncio.gather(skipping, erasing)
    assert await sql.fetchval("SELECT count(*) FROM idempotency_keys") == 0


async def test_work_that_ends_after_the_erasure_names_nobody(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Ben lives in Faro.", user_id="ben"))
    own = Principal(caller.scope.tenant_id)
    for user in ("ben", "maya"):
        await journal_of(app.parts.uow).record(own, [], keys=[KeyRecord(key(f"end {user}"), {"id": None}, user)])
    rows = await sql.fetch("SELECT key, user_id FROM idempotency_keys ORDER BY key")
    assert [tuple(row) for row in rows] == [("end ben", "ben"), ("end maya", None)]


class Writer:
    """A writer that writes, changes and deletes memories of maya, and keeps what was acknowledged, and when."""

    def __init__(self, app: Application, scope: Principal, number: int) -> None:
        self._app = app
        self._scope = scope
        self._number = number
        self._told = asyncio.Condition()
        self.acknowledged: dict[UUID, list[tuple[float, str]]] = {}

    async def work(self, stop: asyncio.Event) -> None:
        """Write until told to stop."""
        for step in itertools.count():
            if stop.is_set():
                return
            with contextlib.suppress(*LOST):
                await self._step(step)

    async def _step(self, step: int) -> None:
        fresh = f"Maya note {self._number} {step}."
        kind = {"type": MemoryType.turn, "category": "activity"} if step % 3 == 1 else {}
        text = fresh if step % 2 else f"Maya shared note {step % 10}."
        retry = key(f"{self._number} {step}")
        written = await self._app.memory.write.write_memory(self._scope, draft(text, thread_id="t", **kind), key=retry)
        if written.id is None:
            return
        await self._note(written.id, text)
        if step % 3 == 0:
            await self._app.memory.edit.patch_memory(
                self._scope, written.id, {"text": f"Changed {fresh}"}, version=None
            )
            await self._note(written.id, f"Changed {fresh}")
        if step % 5 == 0:
            await self._app.memory.edit.soft_delete_memory(self._scope, written.id)

    async def reached(self, number: int) -> None:
        """Wait until this number of memories is acknowledged."""
        async with self._told:
            await self._told.wait_for(lambda: len(self.acknowledged) >= number)

    async def _note(self, memory_id: UUID, text: str) -> None:
        self.acknowledged.setdefault(memory_id, []).append((asyncio.get_running_loop().time(), text))
        async with self._told:
            self._told.notify_all()


async def until_each_wrote(writers: Sequence[Writer]) -> None:
    """Wait until every writer has two more acknowledged memories."""
    wanted = [len(writer.acknowledged) + 2 for writer in writers]
    async with asyncio.timeout(60):
        for writer, number in zip(writers, wanted, strict=True):
            await writer.reached(number)


@pytest.mark.long
async def test_after_an_erasure_amid_eight_writers_only_what_was_written_since_is_there(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya lives in Lisbon.", thread_id="t"))
    writers, stop = [Writer(app, caller.scope, n) for n in range(WRITERS)], asyncio.Event()
    tasks = [asyncio.create_task(writer.work(stop)) for writer in writers]
    clock, began = asyncio.get_running_loop().time, 0.0
    for _round in range(ROUNDS):
        await until_each_wrote(writers)
        began = clock()
        assert (await app.retention.erase.erase_user(caller.scope, "maya")).counts["memories"] > 0
    stop.set()
    async with asyncio.timeout(60):
        await asyncio.gather(*tasks)
    gone_texts = {t for w in writers for told in w.acknowledged.values() for at, t in told if at < began}
    late = {i for w in writers for i, told in w.acknowledged.items() if told[-1][0] >= began}
    survivors = await sql.fetch("SELECT id, text FROM memories")
    assert {row["id"] for row in survivors} <= late
    assert {row["text"] for row in survivors} & gone_texts == set()
    assert await orphans(sql) == []
    assert await traces(sql, "lisbon") == []


@pytest.fixture
def replica(app: Application, clock: Clock) -> AccessLog:
    """The access log of another server, with observations that it has not written yet."""
    return AccessLog(app.parts.uow, journal_of(app.parts.uow), clock)


def observed(memory_id: UUID | None = None) -> list[Observation]:
    """Return an event of maya in thread t1 for each node and status."""
    nodes: list[Literal["hotpath", "context", "episodic", "worker"]] = ["hotpath", "context", "episodic", "worker"]
    statuses: list[Literal["ok", "error", "skipped"]] = ["ok", "error", "skipped"]
    return [
        Observation(node, "late", status, "maya", "t1", memory_id, "preferences")
        for node, status in itertools.product(nodes, statuses)
    ]


async def named(sql: asyncpg.Connection) -> dict[tuple[str | None, str | None, str | None, str], int]:
    """Return user, thread, memory and category of the late events, with counts."""
    rows = await sql.fetch(
        "SELECT user_id, thread_id, memory_id, category, count(*) FROM events WHERE op = 'late' GROUP BY 1, 2, 3, 4"
    )
    return {(user, thread, memory, category): count for user, thread, memory, category, count in rows}


async def test_a_job_that_would_follow_from_one_of_an_erased_user_is_not_made(
    app: Application, caller: Caller, sql: asyncpg.Connection, gate: Gate
) -> None:
    turn = draft("I live in Lisbon.", type=MemoryType.turn, category="activity", thread_id="t", role="user")
    await app.memory.turns.store_turn(caller.scope, turn)
    store, follows = JobStorage(app.parts.uow, JobPolicy()), NewJob(JobKind.reflect_turn, "maya", {"thread_id": "t"})
    erasing = asyncio.create_task(app.retention.erase.erase_user(replace(caller.scope, agent="slow"), "maya"))
    await gate.waiting(1)
    queueing = asyncio.create_task(store.enqueue_jobs(caller.scope, [follows], "turn:1"))
    await gate.waiting(2)
    await gate.open()
    await erasing
    assert await queueing == []
    assert await store.enqueue_jobs(caller.scope, [follows], "turn:2") == []
    assert await sql.fetchval("SELECT count(*) FROM jobs") == 0


async def test_what_was_observed_late_of_an_erased_user_names_nobody(
    app: Application, caller: Caller, sql: asyncpg.Connection, replica: AccessLog
) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft(thread_id="t1"))
    replica.record_access(caller.scope, (), *observed(written.id))
    await app.retention.erase.erase_user(caller.scope, "maya")
    await replica.flush_pending()
    assert await named(sql) == {(None, None, None, "preferences"): 12}
    assert await sql.fetchval("SELECT count(*) FROM events WHERE user_id = 'maya'") == 0


async def test_what_was_observed_before_an_erased_user_was_stored_anew_names_nobody(
    app: Application, caller: Caller, sql: asyncpg.Connection, replica: AccessLog
) -> None:
    await app.memory.write.write_memory(caller.scope, draft(thread_id="t1"))
    replica.record_access(caller.scope, (), *observed())
    await app.retention.erase.erase_user(caller.scope, "maya")
    again = await app.memory.write.write_memory(caller.scope, draft("Maya plays chess.", thread_id="t1"))
    replica.record_access(caller.scope, (), *observed(again.id))
    await replica.flush_pending()
    assert await named(sql) == {
        (None, None, None, "preferences"): 12,
        ("maya", "t1", str(again.id), "preferences"): 12,
    }
