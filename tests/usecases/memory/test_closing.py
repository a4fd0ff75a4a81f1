"""A later statement about one attribute closes the span of the earlier one, softly and undoably."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.memory.memory import Memory, MemoryState
from app.usecases.recall.request import Query
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.conftest import Configured
from tests.usecases.stored import active_texts, history_of

OSLO = "The user lives in Oslo."
BERGEN = "The user lives in Bergen now."


@pytest.fixture
async def owner(app: Application) -> Caller:
    """A tenant with an admin key."""
    return await make_caller(app)


async def get(app: Application, owner: Caller, memory_id: UUID | None) -> Memory:
    """Return a stored memory."""
    assert memory_id is not None
    return await app.memory.read.get_memory(owner.scope, memory_id)


async def test_a_later_statement_closes_the_earlier_one(
    app: Application, owner: Caller, clock: Clock, sql: asyncpg.Connection
) -> None:
    first = await app.memory.write.write_memory(owner.scope, draft(OSLO))
    clock.move(days=2)
    second = await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    assert second.action == "created"
    old = await get(app, owner, first.id)
    new = await get(app, owner, second.id)
    assert (old.state, old.superseded_by, old.text) == (MemoryState.superseded, new.id, OSLO)
    assert (new.state, new.superseded_by) == (MemoryState.active, None)
    assert await active_texts(sql) == [BERGEN]
    *_, closed = await history_of(sql, old.id)
    assert (closed["event"], closed["new_ref"], closed["meta"]["rule"]) == ("UPDATE", str(new.id), "supersession")


async def test_the_delta_tells_it_as_an_update_of_the_newer(app: Application, owner: Caller, clock: Clock) -> None:
    await app.memory.write.write_memory(owner.scope, draft(OSLO, thread_id="t1"))
    clock.move(days=2)
    await app.memory.write.write_memory(owner.scope, draft(BERGEN, thread_id="t2"))
    for thread, since in (("t1", 1), ("t2", 0)):
        delta = await app.recall.delta.read_delta(owner.scope, thread, since, "supervisor")
        assert delta.header is not None
        assert delta.header.text.text.splitlines()[1:] == [f"- ↑updated: [Preferences] {BERGEN}"]


async def test_an_edit_closes_the_earlier_one_too(
    app: Application, owner: Caller, clock: Clock, sql: asyncpg.Connection
) -> None:
    first = await app.memory.write.write_memory(owner.scope, draft(OSLO))
    clock.move(days=2)
    second = await app.memory.write.write_memory(owner.scope, draft("The user likes fjords."))
    assert second.id is not None
    await app.memory.edit.patch_memory(owner.scope, second.id, {"text": BERGEN}, version=None)
    assert (await get(app, owner, first.id)).superseded_by == second.id
    assert await active_texts(sql) == [BERGEN]


async def test_an_edit_of_the_earlier_one_closes_nothing(
    app: Application, owner: Caller, clock: Clock, sql: asyncpg.Connection
) -> None:
    first = await app.memory.write.write_memory(owner.scope, draft("The user likes fjords."))
    clock.move(days=2)
    await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    assert first.id is not None
    await app.memory.edit.patch_memory(owner.scope, first.id, {"text": OSLO}, version=None)
    assert await active_texts(sql) == [BERGEN, OSLO]


async def test_a_restore_undoes_it(app: Application, owner: Caller, clock: Clock) -> None:
    first = await app.memory.write.write_memory(owner.scope, draft(OSLO))
    clock.move(days=2)
    await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    assert first.id is not None
    restored = await app.memory.edit.restore_memory(owner.scope, first.id)
    assert (restored.state, restored.superseded_by) == (MemoryState.active, None)


async def test_an_imported_older_statement_is_itself_the_older(
    app: Application, owner: Caller, sql: asyncpg.Connection
) -> None:
    stored = await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    imported = await app.memory.write.write_memory(
        owner.scope, draft(OSLO, created_at=datetime(2020, 1, 1, tzinfo=UTC))
    )
    old = await get(app, owner, imported.id)
    assert (old.state, old.superseded_by) == (MemoryState.superseded, stored.id)
    assert await active_texts(sql) == [BERGEN]


async def test_an_imported_older_statement_that_is_pinned_stays(
    app: Application, owner: Caller, sql: asyncpg.Connection
) -> None:
    await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    early = datetime(2020, 1, 1, tzinfo=UTC)
    await app.memory.write.write_memory(owner.scope, draft(OSLO, created_at=early, pinned=True))
    assert await active_texts(sql) == [BERGEN, OSLO]


async def test_of_two_at_the_same_moment_neither_is_closed(
    app: Application, owner: Caller, sql: asyncpg.Connection
) -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    for text in (OSLO, BERGEN):
        await app.memory.write.write_memory(owner.scope, draft(text, created_at=moment))
    assert await active_texts(sql) == [BERGEN, OSLO]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"text": OSLO, "user_id": "maya"}, {"text": BERGEN, "user_id": "tom"}),
        ({"text": OSLO, "pinned": True}, {"text": BERGEN}),
        ({"text": OSLO, "actor_id": "tom"}, {"text": BERGEN}),
        ({"text": OSLO}, {"text": "The user might move to Bergen."}),
        ({"text": "Der Nutzer wohnt in Oslo."}, {"text": BERGEN}),
    ],
    ids=["another user", "pinned", "another actor", "a plan", "another language"],
)
async def test_in_doubt_nothing_is_closed(
    app: Application, owner: Caller, clock: Clock, sql: asyncpg.Connection, older: dict[str, Any], newer: dict[str, Any]
) -> None:
    await app.memory.write.write_memory(owner.scope, draft(**older))
    clock.move(days=2)
    await app.memory.write.write_memory(owner.scope, draft(**newer))
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE state = 'active'") == 2


async def test_a_tenant_may_turn_it_off(configured: Configured, clock: Clock, sql: asyncpg.Connection) -> None:
    app = await configured(policies={"write": {"supersede": False}})
    owner = await make_caller(app)
    await app.memory.write.write_memory(owner.scope, draft(OSLO))
    clock.move(days=2)
    await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    assert await active_texts(sql) == [BERGEN, OSLO]


async def test_the_answer_has_the_present_statement_alone(app: Application, owner: Caller, clock: Clock) -> None:
    await app.memory.write.write_memory(owner.scope, draft(OSLO))
    clock.move(days=2)
    await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    asked = Query("supervisor", "Where does the user live?", filters=Filters(user_id="maya"))
    answer = await app.recall.query.answer_query(owner.scope, asked)
    assert [item.memory.text for item in answer.items] == [BERGEN]
