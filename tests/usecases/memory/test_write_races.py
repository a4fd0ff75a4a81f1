"""Concurrent writers: one memory for each fact, no lost write, revisions without gaps."""

import asyncio
import hashlib

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import IdempotencyMismatch
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import MemoryState
from app.domain.outages import WriteContention
from app.usecases.memory.write import WriteResult
from tests.factories import Caller, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.stored import active_texts, history_of, in_line

SHORT = "Maya plays chess."
FULL = "Maya plays chess, tennis and golf."


def _key(body: str = "one") -> IdempotencyKey:
    return IdempotencyKey("POST /memory", "retry-1", hashlib.sha256(body.encode()).digest())


@pytest.mark.long
async def test_the_same_text_from_several_writers_is_one_memory(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    drafts = [draft(user_id="new user", importance=1 + n % 5, tags=(f"tag{n}",), thread_id="t1") for n in range(5)]
    written = await asyncio.gather(*(app.memory.write.write_memory(caller.scope, one) for one in drafts))
    assert sorted(w.action for w in written) == ["created", *["updated"] * 4]
    assert len({w.id for w in written}) == 1
    assert sorted(w.revision or 0 for w in written) == list(range(1, 6))
    memory = await app.memory.read.get_memory(caller.scope, written[0].id)
    assert (memory.version, memory.importance, set(memory.tags)) == (5, 5, {f"tag{n}" for n in range(5)})
    assert len(await history_of(sql, memory.id)) == 5


async def test_the_loser_of_two_updates_thinks_again_and_loses_nothing(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft(SHORT, importance=1))
    fuller = app.memory.write.write_memory(caller.scope, draft(FULL, importance=5, tags=("a",)))
    shorter = app.memory.write.write_memory(caller.scope, draft(SHORT, importance=3, tags=("b",), pinned=True))
    answers = await in_line(sql, first.id, fuller, shorter)
    assert [(w.action, w.id) for w in answers] == [("updated", first.id)] * 2
    memory = await app.memory.read.get_memory(caller.scope, first.id)
    assert (memory.text, memory.importance, memory.pinned, memory.tags) == (FULL, 5, True, ("a", "b"))
    assert [row["meta"].get("incoming") for row in await history_of(sql, first.id)] == [None, FULL, SHORT]


async def test_a_memory_deleted_under_the_writer_is_written_anew(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft(SHORT))
    deleted, written = await in_line(
        sql,
        first.id,
        app.memory.edit.soft_delete_memory(caller.scope, first.id),
        app.memory.write.write_memory(caller.scope, draft(FULL)),
    )
    assert deleted.state is MemoryState.soft_deleted
    assert written.action == "created"
    assert written.id != first.id
    assert await active_texts(sql) == [FULL]


async def test_a_memory_purged_under_the_writer_is_written_anew(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft(SHORT))
    purged, written = await in_line(
        sql,
        first.id,
        app.memory.edit.purge_memory(caller.scope, first.id),
        app.memory.write.write_memory(caller.scope, draft(FULL)),
    )
    assert (purged, written.action) == (None, "created")
    assert await active_texts(sql) == [FULL]


async def test_a_deletion_behind_an_update_deletes_the_updated_memory(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft(SHORT))
    written, deleted = await in_line(
        sql,
        first.id,
        app.memory.write.write_memory(caller.scope, draft(FULL)),
        app.memory.edit.soft_delete_memory(caller.scope, first.id),
    )
    assert (written.action, written.id) == ("updated", first.id)
    assert (deleted.state, deleted.text, deleted.version) == (MemoryState.soft_deleted, FULL, 3)
    assert await active_texts(sql) == []


async def test_two_that_recreate_the_same_memory_leave_one_chain(
    configured: Configured, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"write": {"merge_mode": "recreate"}})
    caller = await make_caller(app)
    first = await app.memory.write.write_memory(caller.scope, draft(SHORT))
    lower, upper = (app.memory.write.write_memory(caller.scope, draft(text)) for text in (SHORT.lower(), SHORT.upper()))
    one, two = await in_line(sql, first.id, lower, upper)
    assert await active_texts(sql) == [SHORT.upper()]
    assert (await app.memory.read.get_memory(caller.scope, first.id)).superseded_by == one.id
    assert (await app.memory.read.get_memory(caller.scope, one.id)).superseded_by == two.id


async def test_a_writer_that_may_not_think_again_says_so_and_leaves_nothing(
    configured: Configured, sql: asyncpg.Connection
) -> None:
    app = await configured(policies={"write": {"attempts": 1}})
    caller = await make_caller(app)
    first = await app.memory.write.write_memory(caller.scope, draft(SHORT, thread_id="t1"))
    _, lost = await in_line(
        sql,
        first.id,
        app.memory.write.write_memory(caller.scope, draft(FULL, thread_id="t1")),
        app.memory.write.write_memory(caller.scope, draft(SHORT, thread_id="t2", importance=5)),
    )
    assert isinstance(lost, WriteContention)
    assert await sql.fetchval("SELECT count(*) FROM thread_revision WHERE thread_id = 't2'") == 0
    assert len(await history_of(sql, first.id)) == 2


async def test_a_retry_key_used_at_the_same_moment_writes_once(app: Application, caller: Caller) -> None:
    answers = await asyncio.gather(
        *(app.memory.write.write_memory(caller.scope, draft(thread_id="t1"), key=_key()) for _ in range(6))
    )
    assert len(set(answers)) == 1
    assert (answers[0].action, answers[0].revision) == ("created", 1)
    assert (await app.memory.read.get_memory(caller.scope, answers[0].id)).version == 1
    with pytest.raises(IdempotencyMismatch):
        await app.memory.write.write_memory(caller.scope, draft("Something else."), key=_key("two"))


async def test_a_retry_answers_as_the_first_call_did_even_after_the_memory_changed(
    app: Application, caller: Caller
) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya wants to win a chess tournament."))
    first = await app.memory.write.write_memory(caller.scope, draft(SHORT, thread_id="t1"), key=_key())
    await app.memory.write.write_memory(caller.scope, draft(FULL, thread_id="t1"))
    assert first.related == 1
    assert await app.memory.write.write_memory(caller.scope, draft(SHORT, thread_id="t1"), key=_key()) == first


async def test_a_retry_key_is_taken_even_when_the_write_was_skipped(configured: Configured) -> None:
    app = await configured(policies={"write": {"min_importance": 3}})
    caller = await make_caller(app)
    skipped = await app.memory.write.write_memory(caller.scope, draft(importance=2), key=_key())
    assert skipped.action == "skipped"
    assert await app.memory.write.write_memory(caller.scope, draft(importance=2), key=_key()) == skipped
    with pytest.raises(IdempotencyMismatch):
        await app.memory.write.write_memory(caller.scope, draft("Maya likes tea.", importance=5), key=_key("two"))


@pytest.mark.long
async def test_revisions_have_no_gaps_however_many_write(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    words = ("tea", "chess", "rain", "Ghent", "lamps", "honey")

    async def write(n: int) -> WriteResult:
        thread, word = f"t{n % 3}", words[n % len(words)]
        new = draft(f"Maya talks about {word}.", thread_id=thread, tags=(f"tag {n}",))
        return await app.memory.write.write_memory(caller.scope, new)

    await asyncio.gather(*(write(n) for n in range(30)))
    assert len(await active_texts(sql)) == len(words)
    told = await sql.fetch(
        "SELECT thread_id, array_agg(rev ORDER BY rev) AS revs FROM change_log GROUP BY 1 ORDER BY 1"
    )
    assert [(row["thread_id"], row["revs"]) for row in told] == [(f"t{n}", list(range(1, 11))) for n in range(3)]
    kept = await sql.fetch("SELECT rev FROM thread_revision ORDER BY thread_id")
    assert [row["rev"] for row in kept] == [10, 10, 10]
