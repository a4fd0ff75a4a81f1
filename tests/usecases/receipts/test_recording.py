"""Receipts of answered queries: what they hold, how they are written, and when they go."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import CategoryNotAllowed
from app.domain.filters import Filters
from app.domain.outages import DatabaseUnavailable
from app.domain.principal import Principal
from app.domain.receipts.receipt import ToldItem
from app.storage.access_log import BATCH_ROWS, MAX_ROWS, AccessLog, ReceiptBuffer
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.usecases.facts.store import FactPlace
from app.usecases.recall.request import Query
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.receipts.asking import ask, receipt, row_counts, told

TEXT = "Maya drinks oat milk."


async def test_an_answer_leaves_a_receipt_of_what_it_told(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft(TEXT, thread_id="t"))
    await app.memory.edit.patch_memory(caller.scope, first.id, {"importance": 5}, version=None)
    answer = await ask(app, caller, "What does Maya drink?", thread_id="t")
    assert answer.query_id is not None
    assert answer.delta is not None
    row = await sql.fetchrow("SELECT * FROM receipts WHERE id = $1", answer.query_id)
    assert row is not None
    kept = ("via", "agent", "key_id", "user_id", "thread_id", "header_from", "header_to", "tokens", "degraded")
    assert {name: row[name] for name in kept} == {
        "via": "query",
        "agent": "supervisor",
        "key_id": caller.scope.key_id,
        "user_id": "maya",
        "thread_id": "t",
        "header_from": 0,
        "header_to": answer.delta["rev"],
        "tokens": answer.tokens,
        "degraded": None,
    }
    assert row["relevance"] == pytest.approx(answer.answerable)
    assert abs(datetime.now(UTC) - row["ts"]) < timedelta(seconds=30)
    assert await told(sql, answer.query_id) == [("header", first.id, 2), ("item", first.id, 2)]


async def test_a_receipt_has_related_memories_and_facts_in_the_order_of_the_answer(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft("Maya's favorite tea is green tea from Uji."))
    await app.memory.write.write_memory(caller.scope, draft("Maya drinks green tea from Uji every morning."))
    await app.facts.store.store_text(caller.scope, FactPlace("maya"), "My favorite color is green.")
    answer = await ask(app, caller, "What is my favorite color?", top_k=2)
    items = [("item", i.memory.id, i.memory.version) for i in answer.items]
    related = [("related", i.memory.id, i.memory.version) for i in answer.related]
    assert await told(sql, answer.query_id) == [
        ("fact", await sql.fetchval("SELECT id FROM facts"), None),
        *items,
        *related,
    ]
    assert first.id in {i.memory.id for i in (*answer.items, *answer.related)}


async def test_no_receipt_holds_a_text(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    await app.memory.write.write_memory(caller.scope, draft("Maya drinks quuxberry milk.", thread_id="t"))
    answer = await ask(app, caller, "What about zyxomel and quuxberry?", thread_id="t")
    assert "quuxberry" in answer.header
    for word in ("quuxberry", "zyxomel"):
        for table in ("receipts", "receipt_items", "usage_days"):
            assert await sql.fetchval(f"SELECT count(*) FROM {table} t WHERE t::text LIKE '%{word}%'") == 0


async def test_a_refused_query_leaves_no_receipt(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    bound = await make_caller(app, ["query"], ["stylist"], tenant=caller)
    with pytest.raises(CategoryNotAllowed):
        await ask(app, bound, "What is due?", agent="stylist", categories=("tasks",))
    await app.parts.access.flush_pending(caller.scope)
    assert await row_counts(sql) == {"receipts": 0, "receipt_items": 0, "usage_days": 0}


async def test_receipts_can_be_switched_off(configured: Configured, caller: Caller, sql: asyncpg.Connection) -> None:
    quiet = await configured(policies={"query": {"receipts": False}})
    await quiet.memory.write.write_memory(caller.scope, draft(TEXT))
    answer = await ask(quiet, caller, "What does Maya drink?")
    assert answer.items
    assert answer.query_id is None
    assert await row_counts(sql) == {"receipts": 0, "receipt_items": 0, "usage_days": 0}


async def test_queries_and_tokens_are_counted_by_user_and_day(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    await app.memory.write.write_memory(caller.scope, draft(TEXT))
    answers = [await ask(app, caller, "What does Maya drink?") for _ in range(3)]
    everybody = await ask(app, caller, "Who drinks milk?", user_id=None)
    rows = await sql.fetch("SELECT user_id, sum(queries) AS queries, sum(tokens) AS tokens FROM usage_days GROUP BY 1")
    assert {row["user_id"]: (row["queries"], row["tokens"]) for row in rows} == {
        "maya": (3, sum(answer.tokens for answer in answers)),
        "": (1, everybody.tokens),
    }


async def test_a_user_who_is_not_stored_is_not_named(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    answer = await ask(app, caller, "What does Bo drink?", user_id="bo", thread_id="bo's talk")
    row = await sql.fetchrow("SELECT user_id, thread_id, agent FROM receipts WHERE id = $1", answer.query_id)
    assert row is not None
    assert tuple(row) == (None, None, "supervisor")
    assert await sql.fetchval("SELECT user_id FROM usage_days") == ""


async def test_a_batch_that_is_written_twice_counts_once(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    written = await app.memory.write.write_memory(caller.scope, draft(TEXT))
    twice = receipt("maya", ToldItem("item", written.id, "preferences", "maya", version=1))
    for _ in range(2):
        log = ReceiptBuffer(app.parts.uow)
        log.add_receipt(caller.scope, twice)
        await log.flush_tenant(caller.scope.tenant_id)
    assert await row_counts(sql) == {"receipts": 1, "receipt_items": 1, "usage_days": 1}
    assert await sql.fetchval("SELECT queries FROM usage_days") == 1


class Away:
    """A unit of work whose first `failures` calls fail. It keeps the sizes of all batches."""

    def __init__(self, failures: int, error: BaseException | None = None) -> None:
        self.failures = failures
        self.error = error or DatabaseUnavailable()
        self.written: list[tuple[int, int]] = []

    async def call(self, _principal: Principal, _statement: str, receipts: list[Any], items: list[Any]) -> list[Any]:
        """Fail, or note the batch."""
        if self.failures:
            self.failures -= 1
            raise self.error
        self.written.append((len(receipts), len(items)))
        return []


def many(count: int, items: int) -> list[Any]:
    """Return receipts with so many items each."""
    return [receipt("maya", *(ToldItem("item", new_id(), "tasks", "maya") for _ in range(items))) for _ in range(count)]


async def test_what_cannot_be_written_is_written_later_in_batches_and_in_order() -> None:
    scope, away = Principal(new_id()), Away(failures=2)
    buffer = ReceiptBuffer(away)  # type: ignore[arg-type]  # only `call` is used
    for one in many(30, 99):
        assert buffer.add_receipt(scope, one)
    for _ in range(3):
        assert buffer.tenants == {scope.tenant_id}
        await buffer.flush_tenant(scope.tenant_id)
    assert buffer.tenants == frozenset()
    assert away.written == [(BATCH_ROWS // 100, 99 * BATCH_ROWS // 100)] * 3


@pytest.mark.parametrize("error", [ValueError("a defect"), asyncio.CancelledError()])
async def test_no_error_loses_what_is_not_written_yet(error: BaseException) -> None:
    scope, away = Principal(new_id()), Away(failures=1, error=error)
    buffer = ReceiptBuffer(away)  # type: ignore[arg-type]  # only `call` is used
    for one in many(20, 99):
        buffer.add_receipt(scope, one)
    with pytest.raises(type(error)):
        await buffer.flush_tenant(scope.tenant_id)
    assert buffer.tenants == {scope.tenant_id}
    await buffer.flush_tenant(scope.tenant_id)
    assert away.written == [(BATCH_ROWS // 100, 99 * BATCH_ROWS // 100)] * 2


@pytest.mark.parametrize("broken", ["receipts", "events"])
async def test_a_defect_in_the_records_of_one_tenant_holds_up_no_other(
    app: Application, caller: Caller, sql: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    others = [await make_caller(app) for _ in range(2)]
    for one in (others[0], caller, others[1]):
        await app.memory.write.write_memory(one.scope, draft(TEXT))
    await app.parts.access.flush_pending()
    writes: Mapping[str, tuple[Any, str]] = {
        "receipts": (ReceiptBuffer, "_write_batch"),
        "events": (Journal, "record_event"),
    }
    owner, name = writes[broken]
    whole = getattr(owner, name)

    async def fail_for_one(self: Any, whose: Any, *rest: Any) -> None:
        if caller.scope.tenant_id in (whose, getattr(whose, "tenant_id", None)):
            raise ValueError("a defect")
        await whole(self, whose, *rest)

    for one in (others[0], caller, others[1]):
        asked = Query("supervisor", "What does Maya drink?", filters=Filters(user_id="maya"))
        await app.recall.query.answer_query(one.scope, asked)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail_for_one)
        await app.parts.access.flush_pending()
    counts = {
        "receipts": "SELECT count(*) FROM receipts WHERE tenant_id = $1",
        "events": "SELECT count(*) FROM events WHERE tenant_id = $1 AND node = 'context' AND op = 'search'",
    }

    async def stored(kind: str, one: Caller) -> int:
        count: int = await sql.fetchval(counts[kind], one.scope.tenant_id)
        return count

    for kind in counts:
        assert [await stored(kind, one) for one in others] == [1, 1]
        assert await stored(kind, caller) == int(kind != broken)
    await app.parts.access.flush_pending()
    assert [await stored(kind, caller) for kind in counts] == [1, 1], "nothing is lost"


async def test_a_receipt_larger_than_a_batch_is_written_whole() -> None:
    scope, away = Principal(new_id()), Away(failures=0)
    buffer = ReceiptBuffer(away)  # type: ignore[arg-type]  # only `call` is used
    for one in (*many(1, 3), *many(1, BATCH_ROWS + 5), *many(1, 3)):
        buffer.add_receipt(scope, one)
    await buffer.flush_tenant(scope.tenant_id)
    assert away.written == [(1, 3), (1, BATCH_ROWS + 5), (1, 3)]


@pytest.mark.long
async def test_the_buffer_is_bounded_for_each_tenant() -> None:
    scope, other, away = Principal(new_id()), Principal(new_id()), Away(failures=1)
    buffer = ReceiptBuffer(away)  # type: ignore[arg-type]  # only `call` is used
    taken = [buffer.add_receipt(scope, one) for one in many(MAX_ROWS // 1000 + 2, 999)]
    assert taken == [True] * (MAX_ROWS // 1000) + [False] * 2
    assert buffer.add_receipt(other, *many(1, 1))
    await buffer.flush_tenant(scope.tenant_id)
    assert not buffer.add_receipt(scope, *many(1, 999)), "what failed still counts"
    await buffer.flush_tenant(scope.tenant_id)
    assert buffer.add_receipt(scope, *many(1, 999))


async def test_a_query_whose_receipt_is_dropped_is_answered_without_an_id(
    app: Application, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.storage.access_log.MAX_ROWS", 0)
    await app.memory.write.write_memory(caller.scope, draft(TEXT))
    answer = await ask(app, caller, "What does Maya drink?")
    assert (len(answer.items), answer.query_id) == (1, None)


async def test_servers_that_flush_together_count_everything(
    app: Application, caller: Caller, sql: asyncpg.Connection, clock: Clock, other_server: AccessLog
) -> None:
    for user in ("ana", "bo", "maya"):
        await app.memory.write.write_memory(caller.scope, draft(TEXT, user_id=user))
    await app.parts.access.flush_pending()
    for number in range(200):
        log = (app.parts.access, other_server)[number % 2]
        log.record_receipt(caller.scope, receipt(("ana", "bo", "maya")[number % 3]))
    await asyncio.gather(app.parts.access.flush_pending(), other_server.flush_pending())
    assert await sql.fetchval("SELECT sum(queries) FROM usage_days") == 200
    assert await sql.fetchval("SELECT count(*) FROM receipts") == 200


async def test_old_receipts_go_with_their_items_and_days_of_usage_with_events(
    configured: Configured, caller: Caller, sql: asyncpg.Connection, clock: Clock
) -> None:
    short: Mapping[str, Any] = {"receipts_days": 3, "events_days": 30, "records_batch": 2}
    app = await configured(policies={"lifecycle": short})
    written = await app.memory.write.write_memory(caller.scope, draft(TEXT))
    for number in range(5):
        app.parts.access.record_receipt(
            caller.scope, receipt("maya", ToldItem("item", written.id, "preferences", "maya", version=number))
        )
    await app.parts.access.flush_pending()
    clock.move(days=2)
    assert (await app.retention.forget.delete_old_records(caller.scope)).counts["receipts"] == 0
    clock.move(days=16)  # nobody dropped their week in two weeks
    dry = await app.retention.forget.delete_old_records(caller.scope, dry_run=True)
    assert (dry.counts["receipts"], dry.counts["usage_days"]) == (5, 0)
    assert await row_counts(sql) == {"receipts": 5, "receipt_items": 5, "usage_days": 1}
    done = await app.retention.forget.delete_old_records(caller.scope)
    assert (done.counts["receipts"], done.counts["usage_days"]) == (5, 0)
    assert await row_counts(sql) == {"receipts": 0, "receipt_items": 0, "usage_days": 1}
    clock.move(days=14)
    assert (await app.retention.forget.delete_old_records(caller.scope)).counts["usage_days"] == 1
