"""A write that changes nothing: no version, no history, no delta, and the same answer in every way to write."""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.idempotency import IdempotencyKey
from app.usecases.memory.bulk import BulkLine
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.stored import events_of, recorded

FULL = "Maya plays chess, tennis and golf."
STORED: Mapping[str, Any] = {"importance": 3, "tags": ("a", "b"), "thread_id": "t1"}


@pytest.mark.parametrize("mode", ["update", "recreate"])
@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (FULL, {}),
        (f"  {FULL} ", {"importance": 1, "tags": ()}),
        (FULL, {"tags": ("b",), "thread_id": "t2", "source": {"turn_id": "t9"}, "metadata": {"k": 1}}),
        ("Maya plays chess.", {"pinned": False}),  # the stored text says it already
    ],
)
async def test_what_is_known_already_stores_nothing(
    configured: Configured, sql: asyncpg.Connection, mode: str, text: str, fields: Mapping[str, Any]
) -> None:
    app = await configured(policies={"write": {"merge_mode": mode}})
    caller = await make_caller(app)
    first = await app.memory.write.write_memory(caller.scope, draft(FULL, **STORED))
    before = await recorded(sql)
    again = await app.memory.write.write_memory(caller.scope, draft(text, **{**STORED, **fields}))
    assert (again.action, again.id, again.matched_id) == ("unchanged", first.id, first.id)
    assert (again.related, again.revision) == (0, None)
    assert again.similarity is not None
    assert await recorded(sql) == before


@pytest.mark.parametrize(
    "fields", [{"importance": 4}, {"pinned": True}, {"tags": ("c",)}, {"text": "MAYA plays chess, tennis and golf."}]
)
async def test_any_attribute_that_would_change_is_stored(
    app: Application, caller: Caller, fields: Mapping[str, Any]
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft(FULL, **STORED))
    again = await app.memory.write.write_memory(caller.scope, draft(**{"text": FULL, **STORED, **fields}))
    assert (again.action, again.id) == ("updated", first.id)
    assert (await app.memory.read.get_memory(caller.scope, first.id)).version == 2


async def test_it_needs_one_round_trip_and_leaves_an_event(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    for _ in range(2):
        await app.memory.write.write_memory(caller.scope, draft())
    await app.parts.access.flush_pending()
    assert (await events_of(sql)).count(("hotpath", "update", "skipped")) == 1


async def test_what_is_stated_again_is_not_forgotten(
    app: Application, caller: Caller, sql: asyncpg.Connection, clock: Clock
) -> None:
    first = await app.memory.write.write_memory(caller.scope, draft())
    clock.move(days=50)
    await app.memory.write.write_memory(caller.scope, draft())
    await app.parts.access.flush_pending()
    memory = await app.memory.read.get_memory(caller.scope, first.id)
    assert memory.last_accessed is not None
    assert memory.hits == 0
    assert memory.last_accessed - memory.updated_at >= timedelta(days=50)


async def test_a_retry_gets_the_same_answer(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    key = IdempotencyKey("POST /memory", "k", hashlib.sha256(b"x").digest())
    await app.memory.write.write_memory(caller.scope, draft())
    first = await app.memory.write.write_memory(caller.scope, draft(), key=key)
    assert first.action == "unchanged"
    await app.memory.write.write_memory(caller.scope, draft(importance=5))
    before = await recorded(sql)
    assert await app.memory.write.write_memory(caller.scope, draft(), key=key) == first
    assert await recorded(sql) == before


async def test_a_bulk_write_answers_each_line(app: Application, caller: Caller, sql: asyncpg.Connection) -> None:
    texts = ["Maya drinks oat milk.", "The deployment needs two approvals.", "Maya plays chess."]
    await app.memory.write.write_memory(caller.scope, draft(texts[0]))
    lines = [BulkLine(number, draft(text)) for number, text in enumerate([*texts, texts[2]], 1)]
    actions = [
        getattr(one.outcome, "action", one.outcome) async for one in app.memory.bulk.write_lines(caller.scope, lines)
    ]
    assert actions == ["unchanged", "created", "created", "unchanged"]
    before = await recorded(sql)
    actions = [
        getattr(one.outcome, "action", one.outcome) async for one in app.memory.bulk.write_lines(caller.scope, lines)
    ]
    assert actions == ["unchanged"] * 4
    assert await recorded(sql) == before
