"""Erasure and export of receipts: after an erasure none names the person, whichever server still held it."""

import asyncio
from dataclasses import replace
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import NotFound
from app.domain.receipts.receipt import ToldItem
from app.storage.access_log import AccessLog
from app.usecases.facts.store import FactPlace
from tests.factories import Caller, draft
from tests.storage.building import Gate
from tests.usecases.receipts.asking import ask, mentions, receipt, row_counts, told

MAYA, BO = "Maya drinks oat milk.", "Bo drinks soy milk."


@pytest.fixture
async def gate(sql: asyncpg.Connection) -> Gate:
    """A closed gate before every commit by the actor `slow`."""
    made = Gate(sql)
    await made.install()
    return made


def item(memory_id: UUID | None, user_id: str) -> ToldItem:
    """Return a told memory of a user."""
    assert memory_id is not None
    return ToldItem("item", memory_id, "preferences", user_id, version=1)


async def user_key(sql: asyncpg.Connection, user_id: str) -> int:
    """Return the internal key of a stored user."""
    return int(await sql.fetchval("SELECT user_pk FROM users WHERE user_id = $1", user_id))


@pytest.mark.long
async def test_an_erasure_deletes_the_users_receipts_and_takes_their_memories_out_of_others(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    maya = await app.memory.write.write_memory(caller.scope, draft(MAYA, thread_id="maya-talk"))
    bo = await app.memory.write.write_memory(caller.scope, draft(BO, user_id="bo", thread_id="bo-talk"))
    await ask(app, caller, "What does Maya drink?", thread_id="maya-talk")
    about_bo = await ask(app, caller, "What does Bo drink?", user_id="bo", thread_id="bo-talk")
    everybody = await ask(app, caller, "Who drinks milk?", user_id=None, thread_id="maya-talk")
    assert {row[1] for row in await told(sql, everybody.query_id)} == {maya.id, bo.id}
    erased = await app.retention.erase.erase_user(caller.scope, "maya")
    assert (erased.counts["receipts"], erased.counts["usage_days"]) == (1, 1)
    assert erased.counts["receipt_items"] == 2  # a line of the header and an item
    assert await mentions(sql, "maya") == []
    assert await mentions(sql, str(maya.id)) == []
    assert {row[1] for row in await told(sql, everybody.query_id)} == {bo.id}
    assert {row[1] for row in await told(sql, about_bo.query_id)} == {bo.id}
    assert await sql.fetchval("SELECT sum(queries) FROM usage_days") == 2


@pytest.mark.long
async def test_facts_are_taken_out_too(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    await app.facts.store.store_text(caller.scope, FactPlace("maya", "t"), "My favorite color is green.")
    fact = await sql.fetchval("SELECT id FROM facts")
    await app.memory.write.write_memory(caller.scope, draft(BO, user_id="bo"))
    answer = await ask(app, caller, "What is new about colors?", user_id=None, thread_id="t")
    assert ("header", fact, None) in await told(sql, answer.query_id)
    await app.retention.erase.erase_user(caller.scope, "maya")
    assert fact not in {row[1] for row in await told(sql, answer.query_id)}


async def test_a_user_of_whom_only_receipts_are_left_can_be_erased(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft(MAYA))
    await ask(app, caller, "What does Maya drink?")
    await app.memory.edit.purge_memory(caller.scope, written.id)
    await sql.execute("DELETE FROM events; DELETE FROM users")
    assert [r["kind"] async for r in await app.retention.export.export_records(caller.scope, "maya")] == [
        "user",
        "receipt",
        "usage",
    ]
    await app.retention.erase.erase_user(caller.scope, "maya")
    assert await row_counts(sql) == {"receipts": 0, "receipt_items": 0, "usage_days": 0}
    with pytest.raises(NotFound):
        await app.retention.export.export_records(caller.scope, "maya")


async def test_receipts_that_another_server_held_during_the_erasure_name_nobody(
    app: Application, caller: Caller, sql: asyncpg.Connection, other_server: AccessLog
) -> None:
    maya = await app.memory.write.write_memory(caller.scope, draft(MAYA, thread_id="t"))
    bo = await app.memory.write.write_memory(caller.scope, draft(BO, user_id="bo"))
    bullet = ToldItem("header", maya.id, "preferences", user_pk=await user_key(sql, "maya"), version=1, bullet={})
    hers, everybodys = (
        receipt("maya", item(maya.id, "maya")),
        receipt(None, bullet, item(maya.id, "maya"), item(bo.id, "bo")),
    )
    other_server.record_receipt(caller.scope, hers)
    other_server.record_receipt(caller.scope, everybodys)
    await app.retention.erase.erase_user(caller.scope, "maya")
    await other_server.flush_pending()
    assert await mentions(sql, "maya") == []
    assert await mentions(sql, str(maya.id)) == []
    assert await told(sql, hers.id) == []
    assert [row[1] for row in await told(sql, everybodys.id)] == [bo.id]
    rows = await sql.fetch("SELECT user_id, thread_id FROM receipts")
    assert {tuple(row) for row in rows} == {(None, None)}, "the erased user's thread is named neither"


async def test_a_receipt_of_before_is_not_the_person_who_was_stored_anew(
    app: Application, caller: Caller, sql: asyncpg.Connection, other_server: AccessLog
) -> None:
    maya = await app.memory.write.write_memory(caller.scope, draft(MAYA))
    pk = await user_key(sql, "maya")
    before = receipt("maya", item(maya.id, "maya"), ToldItem("header", maya.id, "preferences", user_pk=pk, bullet={}))
    other_server.record_receipt(caller.scope, before)
    await app.retention.erase.erase_user(caller.scope, "maya")
    again = await app.memory.write.write_memory(caller.scope, draft("Maya plays chess."))
    after = receipt("maya", item(again.id, "maya"))
    other_server.record_receipt(caller.scope, after)
    await other_server.flush_pending()
    assert await told(sql, before.id) == []
    assert [row[1] for row in await told(sql, after.id)] == [again.id]
    rows = await sql.fetch("SELECT id, user_id FROM receipts")
    assert {row["id"]: row["user_id"] for row in rows} == {before.id: None, after.id: "maya"}


async def test_a_flush_waits_for_an_erasure_that_has_begun(
    app: Application, caller: Caller, sql: asyncpg.Connection, other_server: AccessLog, gate: Gate
) -> None:
    maya = await app.memory.write.write_memory(caller.scope, draft(MAYA, thread_id="t"))
    held = receipt(None, item(maya.id, "maya"))
    other_server.record_receipt(caller.scope, held)
    erasing = asyncio.create_task(app.retention.erase.erase_user(replace(caller.scope, agent="slow"), "maya"))
    await gate.waiting(1)
    flushing = asyncio.create_task(other_server.flush_pending())
    await gate.waiting(2)
    await gate.open()
    await asyncio.gather(erasing, flushing)
    assert await told(sql, held.id) == []
    assert await mentions(sql, str(maya.id)) == []
    assert await sql.fetchval("SELECT thread_id FROM receipts") is None


async def test_the_export_of_a_user_has_their_receipts_and_usage_and_of_no_other(
    app: Application, caller: Caller
) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft(MAYA))
    await app.memory.write.write_memory(caller.scope, draft(BO, user_id="bo"))
    answer = await ask(app, caller, "What does Maya drink?")
    await ask(app, caller, "What does Bo drink?", user_id="bo")
    await ask(app, caller, "Who drinks milk?", user_id=None)
    records = [r async for r in await app.retention.export.export_records(caller.scope, "maya")]
    [kept] = [r for r in records if r["kind"] == "receipt"]
    assert (kept["id"], kept["agent"], kept["tokens"]) == (answer.query_id, "supervisor", answer.tokens)
    [line] = kept["told"]
    assert (line["part"], line["memory_id"], line["version"]) == ("item", str(written.id), 1)
    [usage] = [r for r in records if r["kind"] == "usage"]
    assert (usage["queries"], usage["tokens"]) == (1, answer.tokens)
