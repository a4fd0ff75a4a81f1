"""The jobs that forget memories, with a clock that the test moves (`docs/contract.md`, Retention)."""

import asyncio
import math
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import NotFound
from app.domain.filters import Filters
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import MemoryState, MemoryType
from app.domain.principal import Principal
from app.usecases.recall.request import Query
from app.usecases.retention.forgetting import SAMPLE, ForgetMemories
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.crowd import START, SeededEmbedder, settle
from tests.usecases.stored import VECTORS, active_texts, history_of, in_line, recorded


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model: only equal texts are near each other."""
    return SeededEmbedder()


@pytest.fixture
def scope(caller: Caller) -> Principal:
    """The principal that runs the jobs."""
    return caller.scope


async def remember(app: Application, scope: Principal, text: str, **fields: Any) -> UUID:
    """Write a memory and return its id."""
    written = await app.memory.write.write_memory(scope, draft(text, **fields))
    assert written.id is not None
    return written.id


async def ask(app: Application, scope: Principal, thread: str | None = None) -> tuple[list[str], str]:
    """Return the texts that the supervisor gets about maya, sorted, and the header."""
    query = Query("supervisor", "oat milk", filters=Filters(user_id="maya"), thread_id=thread)
    answer = await app.recall.query.answer_query(scope, query)
    await app.parts.access.flush_pending()
    return sorted(item.memory.text for item in answer.items), answer.header


async def test_what_is_imported_with_an_old_date_is_as_young_as_its_import(
    app: Application, scope: Principal, clock: Clock
) -> None:
    await remember(app, scope, "Dora is allergic to peanuts.", created_at=clock.now() - timedelta(days=400))
    assert (await app.retention.forget.expire_memories(scope)).counts == {"memories": 0}
    clock.move(days=61)
    assert (await app.retention.forget.expire_memories(scope)).counts == {"memories": 1}


async def test_a_memory_not_accessed_for_61_days_is_forgotten_told_once_restorable_and_purged_30_days_later(
    app: Application, scope: Principal, clock: Clock, sql: asyncpg.Connection
) -> None:
    milk = await remember(app, scope, "Oat milk is fine.", thread_id="t")
    clock.move(days=5)
    assert (await ask(app, scope, "t"))[0] == ["Oat milk is fine."]
    clock.move(days=59)
    assert (await app.retention.forget.expire_memories(scope)).counts == {"memories": 0}
    clock.move(days=2)
    report = await app.retention.forget.expire_memories(scope)
    assert (report.counts, report.sample) == ({"memories": 1}, [milk])
    texts, header = await ask(app, scope, "t")
    assert (texts, header.splitlines()[1:]) == ([], ["- ~soft_deleted: [Preferences] Oat milk is fine."])
    assert await ask(app, scope, "t") == ([], "")
    memory = await app.memory.read.get_memory(scope, milk)
    assert (memory.state, memory.purge_at) == (MemoryState.soft_deleted, memory.updated_at + timedelta(days=30))
    await app.memory.edit.restore_memory(scope, milk)
    assert (await app.retention.forget.expire_memories(scope)).counts == {"memories": 0}
    texts, header = await ask(app, scope, "t")
    assert texts == ["Oat milk is fine."]
    assert header.splitlines()[1:] == ["- ↺restored: [Preferences] Oat milk is fine."]
    assert [row["event"] for row in await history_of(sql, milk)] == ["ADD", "TTL", "RESTORE"]


async def test_after_30_days_row_vector_and_text_are_gone_and_nobody_is_told_again(
    app: Application, scope: Principal, clock: Clock, sql: asyncpg.Connection
) -> None:
    milk = await remember(app, scope, "Zyxomel milk is fine.", thread_id="t")
    await remember(app, scope, "Maya keeps bees.", importance=3)
    clock.move(days=61)
    await app.retention.forget.expire_memories(scope)
    await ask(app, scope, "t")
    clock.move(days=29)
    assert (await app.retention.forget.purge_memories(scope)).counts == {"memories": 0}
    clock.move(days=2)
    assert (await app.retention.forget.purge_memories(scope)).counts == {"memories": 1}
    assert await ask(app, scope, "t") == (["Maya keeps bees."], "")
    with pytest.raises(NotFound):
        await app.memory.edit.restore_memory(scope, milk)
    assert await sql.fetchval(f"SELECT count(*) FROM {VECTORS}") == 1
    for table in ("memories", "history", "change_log", "events", "memory_access"):
        assert await sql.fetchval(f"SELECT count(*) FROM {table} t WHERE t::text ILIKE '%zyxomel%'") == 0, table
    assert [row["event"] for row in await history_of(sql, milk)] == ["ADD", "TTL", "PURGE"]
    assert (await app.retention.forget.purge_memories(scope)).counts == {"memories": 0}


async def test_what_matters_is_pinned_was_accessed_or_was_changed_is_kept(
    app: Application, scope: Principal, clock: Clock, sql: asyncpg.Connection
) -> None:
    await remember(app, scope, "Nobody needs this.", importance=2)
    await remember(app, scope, "Nor this one.", importance=1, thread_id="t", user_id="ben")
    await remember(app, scope, "It matters.", importance=3)
    await remember(app, scope, "It is pinned.", importance=1, pinned=True)
    changed = await remember(app, scope, "It changes.")
    restored = await remember(app, scope, "It came back.")
    clock.move(days=50)
    await app.memory.edit.patch_memory(scope, changed, {"tags": ["new"]}, version=None)
    await app.memory.edit.soft_delete_memory(scope, restored)
    await app.memory.edit.restore_memory(scope, restored)
    accessed = await remember(app, scope, "It is asked for.", created_at=clock.now() - timedelta(days=70))
    await sql.execute(
        "INSERT INTO memory_access (tenant_id, memory_id, last_accessed) VALUES ($1, $2, $3)",
        scope.tenant_id,
        accessed,
        clock.now(),
    )
    clock.move(days=11)
    dry = await app.retention.forget.expire_memories(scope, dry_run=True)
    assert (await app.retention.forget.expire_memories(scope)).counts == dry.counts == {"memories": 2}
    kept = ["It came back.", "It changes.", "It is asked for.", "It is pinned.", "It matters."]
    assert (await active_texts(sql), await active_texts(sql, "ben")) == (kept, [])


@pytest.mark.long
async def test_a_dry_run_tells_what_the_run_will_do_and_changes_nothing(
    configured: Configured, scope: Principal, clock: Clock, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"lifecycle": {"max_entries": 4, "change_log_revisions": 2, "batch": 2}})
    for number in range(12):
        key = IdempotencyKey("POST /memory", str(number), b"body")
        await app.memory.write.write_memory(
            scope, draft(f"Note {number}.", thread_id="t", importance=1 + number % 4), key=key
        )
    await app.memory.edit.soft_delete_memory(scope, await remember(app, scope, "Gone."))
    clock.move(days=100)
    await app.parts.access.flush_pending()
    for job in ("purge", "evict", "ttl", "retention"):
        before, events = await recorded(sql), await sql.fetchval("SELECT count(*) FROM events")
        dry = await app.retention.forget.run_job(scope, job, dry_run=True)
        assert await recorded(sql) == before, job
        assert await sql.fetchval("SELECT count(*) FROM events") == events, job
        done = await app.retention.forget.run_job(scope, job)
        assert (dry.dry_run, done.dry_run, dry.counts, set(dry.sample)) == (True, False, done.counts, set(done.sample))
        assert sum(done.counts.values()) > 0, job
        assert sum((await app.retention.forget.run_job(scope, job)).counts.values()) == 0, job
    assert set(ForgetMemories.JOBS) == {"purge", "evict", "ttl", "retention"}


@pytest.mark.long
async def test_exactly_the_overflow_of_a_thread_is_evicted_the_oldest_unpinned_first(
    configured: Configured, scope: Principal, clock: Clock, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"lifecycle": {"max_entries": 5, "batch": 2}})
    start = clock.now() - timedelta(days=40)

    async def say(number: int, thread: str | None = "t", **fields: Any) -> UUID:
        at = {"created_at": start + timedelta(days=number), "thread_id": thread}
        return await remember(app, scope, f"Note {number} of {thread}.", **at, **fields)

    for number in reversed(range(3, 12)):  # written in reverse order of age
        await say(number, importance=5)
    await say(0, type=MemoryType.summary)
    pinned = await say(1, pinned=True)
    await app.memory.edit.soft_delete_memory(scope, await say(2))
    for number in range(5):
        await say(number, "u")
        await say(number + 20, user_id="ben")
    for number in range(7):
        await say(number, None)
    assert (await app.retention.forget.evict_entries(scope, dry_run=True)).counts == {"memories": 5}
    assert (await app.retention.forget.evict_entries(scope)).counts == {"memories": 5}
    kept = await sql.fetch("SELECT text FROM memories WHERE thread_id = 't' AND user_id = 'maya' AND state = 'active'")
    assert {row["text"] for row in kept} == {f"Note {number} of t." for number in (0, 1, 8, 9, 10, 11)}
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE state = 'active'") == 6 + 5 + 5 + 7
    assert (await app.retention.forget.evict_entries(scope)).counts == {"memories": 0}
    await app.memory.edit.patch_memory(scope, pinned, {"pinned": False}, version=None)
    await say(12)
    assert (await app.retention.forget.evict_entries(scope)).sample == [pinned]


async def test_a_thread_full_of_pinned_memories_loses_none_of_them(configured: Configured, scope: Principal) -> None:
    app = await configured(policies={"lifecycle": {"max_entries": 2}})
    for number in range(4):
        await remember(app, scope, f"Pin {number}.", thread_id="t", pinned=True)
    loose = await remember(app, scope, "Loose.", thread_id="t")
    report = await app.retention.forget.evict_entries(scope)
    assert (report.counts, report.sample) == ({"memories": 1}, [loose])


async def test_an_eviction_is_told_in_the_delta_and_in_history(
    configured: Configured, scope: Principal, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"lifecycle": {"max_entries": 1}})
    old = await remember(app, scope, "Old.", thread_id="t")
    await remember(app, scope, "New.", thread_id="t")
    await app.retention.forget.evict_entries(scope)
    delta = await app.recall.delta.read_delta(scope, "t", 2, "supervisor")
    assert delta.header is not None
    assert delta.header.text.text.splitlines()[1:] == ["- ~soft_deleted: [Preferences] Old."]
    last = (await history_of(sql, old))[-1]
    assert (last["event"], last["meta"]["reason"]) == ("DELETE", "eviction")
    assert (await app.memory.edit.restore_memory(scope, old)).purge_at is None


@pytest.mark.long
async def test_records_are_kept_for_a_time_and_an_older_revision_answers_truncated(
    configured: Configured, scope: Principal, clock: Clock, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"lifecycle": {"change_log_revisions": 3}})
    for number in range(8):
        key = IdempotencyKey("POST /memory", str(number), b"body")
        await app.memory.write.write_memory(scope, draft(f"Note {number}.", thread_id="t"), key=key)
    await remember(app, scope, "Elsewhere.", thread_id="u")
    counts = (await app.retention.forget.delete_old_records(scope)).counts
    names = ("events", "idempotency_keys", "jobs", "store_items", "llm_calls", "facts", "artifacts")
    others = dict.fromkeys((*names, "memory_batches", "receipts", "usage_days"), 0)
    assert counts == {"change_log": 5} | others
    found = {since: await app.recall.delta.read_delta(scope, "t", since, "supervisor") for since in (0, 4, 5, 7, 8)}
    assert {since: delta.truncated for since, delta in found.items()} == {
        0: True,
        4: True,
        5: False,
        7: False,
        8: False,
    }
    assert [(delta.rev, len(delta.entries)) for delta in found.values()] == [(8, 3), (8, 3), (8, 3), (8, 1), (8, 0)]
    assert not (await app.recall.delta.read_delta(scope, "u", 0, "supervisor")).truncated
    clock.move(days=31)
    assert (await app.retention.forget.delete_old_records(scope)).counts["idempotency_keys"] == 8
    clock.move(days=58)
    assert (await app.retention.forget.delete_old_records(scope)).counts["events"] == 0
    await sql.execute("UPDATE events SET ts = $1 WHERE op = 'create'", clock.now() + timedelta(days=9))
    clock.move(days=2)
    events = await sql.fetchval("SELECT count(*) FROM events")
    assert (await app.retention.forget.delete_old_records(scope)).counts["events"] == 0, "they leave with their week"
    clock.move(days=13)
    assert (await app.retention.forget.delete_old_records(scope)).counts["events"] == events - 9
    assert await sql.fetchval("SELECT count(*) FROM history") == 9, "history is kept"


@pytest.mark.long
async def test_two_runs_at_once_forget_everything_once(
    app: Application, scope: Principal, clock: Clock, sql: asyncpg.Connection
) -> None:
    clock.move(seconds=(START + timedelta(days=70) - clock.now()).total_seconds())
    crowd = await settle(sql, scope.tenant_id, 500)
    due = [r for r in crowd.rows if r["state"] == "active" and not r["pinned"] and r["importance"] < 3]
    reports = await asyncio.gather(*(app.retention.forget.expire_memories(scope) for _ in range(2)))
    assert sum(report.counts["memories"] for report in reports) == len(due)
    told = [(row["memory_id"], row["n"]) for row in await _per_memory(sql, "history", "TTL")]
    assert sorted(told) == sorted((str(row["id"]), 1) for row in due)
    threads = [row for row in due if row["thread_id"]]
    assert len(await _per_memory(sql, "change_log", "soft_deleted")) == len(threads)
    assert await sql.fetchval("SELECT count(*) FROM change_log") == len(threads)


async def _per_memory(sql: asyncpg.Connection, table: str, event: str) -> list[asyncpg.Record]:
    return await sql.fetch(f"SELECT memory_id, count(*) AS n FROM {table} WHERE event = $1 GROUP BY 1", event)


@pytest.mark.long
async def test_a_run_over_thousands_of_memories_works_in_batches(
    app: Application, scope: Principal, clock: Clock, sql: asyncpg.Connection
) -> None:
    clock.move(seconds=(START + timedelta(days=70) - clock.now()).total_seconds())
    crowd = await settle(sql, scope.tenant_id, 2500)
    due = sum(r["state"] == "active" and not r["pinned"] and r["importance"] < 3 for r in crowd.rows)
    dry = await app.retention.forget.expire_memories(scope, dry_run=True)
    done = await app.retention.forget.expire_memories(scope)
    assert (dry.counts, done.counts, len(done.sample)) == ({"memories": due}, {"memories": due}, SAMPLE)
    sizes = [r["n"] for r in await sql.fetch("SELECT count(*) AS n FROM history WHERE event = 'TTL' GROUP BY stamp")]
    assert (len(sizes), max(sizes), sum(sizes)) == (math.ceil(due / 200), 200, due)
    clock.move(days=31)
    assert (await app.retention.forget.purge_memories(scope)).counts["memories"] == due
    rest = await sql.fetchval("SELECT count(*) FROM memories WHERE state <> 'soft_deleted' OR purge_at IS NULL")
    assert rest == len(crowd.rows) - due == await sql.fetchval(f"SELECT count(*) FROM {VECTORS}")


@pytest.mark.long
async def test_a_memory_that_somebody_changes_meanwhile_is_left_out_and_the_rest_is_forgotten(
    app: Application, scope: Principal, clock: Clock, sql: asyncpg.Connection
) -> None:
    ids = [await remember(app, scope, f"Note {number}.", thread_id="t") for number in range(6)]
    clock.move(days=61)
    patch = app.memory.edit.patch_memory(scope, ids[3], {"importance": 4}, version=None)
    _memory, report = await in_line(sql, ids[3], patch, app.retention.forget.expire_memories(scope))
    assert report.counts == {"memories": 5}
    assert await active_texts(sql) == ["Note 3."]
    assert [row["event"] for row in await history_of(sql, ids[3])] == ["ADD", "UPDATE"]


@pytest.mark.long
async def test_one_tenants_run_does_not_touch_anothers(
    configured: Configured, app: Application, scope: Principal, clock: Clock, sql: asyncpg.Connection
) -> None:
    small = await configured(policies={"lifecycle": {"max_entries": 1, "change_log_revisions": 1}})
    other = (await make_caller(app)).scope
    gone = await remember(app, other, "Gone.", thread_id="t")
    await app.memory.edit.soft_delete_memory(other, gone)
    for number in range(3):
        await remember(app, other, f"Note {number}.", thread_id="t")
    await remember(app, scope, "Mine.", thread_id="t")
    clock.move(days=105)
    await app.parts.access.flush_pending()
    before, events = await recorded(sql), await sql.fetchval("SELECT count(*) FROM events")
    own = await sql.fetchval("SELECT count(*) FROM events WHERE tenant_id = $1", scope.tenant_id)
    for job in ("evict", "purge", "retention"):
        await small.retention.forget.run_job(scope, job)
    assert await recorded(sql) == before
    assert await sql.fetchval("SELECT count(*) FROM events") == events - own
    assert (await small.retention.forget.expire_memories(scope)).counts == {"memories": 1}
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE state = 'active'") == 3
