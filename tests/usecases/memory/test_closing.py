"""A later statement about one attribute closes the span of the earlier one, softly and undoably."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import WrongState
from app.domain.filters import Filters
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import Memory, MemoryState
from app.usecases.memory.bulk import BulkLine
from app.usecases.memory.correct import Correction
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


async def test_the_later_statement_begins_where_the_earlier_one_ends(
    app: Application, owner: Caller, clock: Clock
) -> None:
    first = await app.memory.write.write_memory(owner.scope, draft(OSLO))
    clock.move(days=2)
    second = await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    old, new = await get(app, owner, first.id), await get(app, owner, second.id)
    assert old.valid_to == new.valid_from == new.created_at
    await app.memory.edit.restore_memory(owner.scope, old.id)
    assert (await get(app, owner, old.id)).valid_to is None
    assert (await get(app, owner, new.id)).valid_from is None


async def test_a_beginning_that_was_named_stays(app: Application, owner: Caller, clock: Clock) -> None:
    first = await app.memory.write.write_memory(owner.scope, draft(OSLO))
    clock.move(days=2)
    named = clock.now() - timedelta(days=1)
    second = await app.memory.write.write_memory(owner.scope, draft(BERGEN, valid_from=named))
    assert first.id is not None
    await app.memory.edit.restore_memory(owner.scope, first.id)
    assert (await get(app, owner, second.id)).valid_from == named


async def test_a_statement_that_took_two_places_keeps_its_beginning_until_both_are_restored(
    app: Application, owner: Caller, clock: Clock
) -> None:
    olds = [await app.memory.write.write_memory(owner.scope, draft(text)) for text in ("She paints.", "He sings.")]
    clock.move(days=2)
    new = await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    begins = []
    for old in olds:
        assert old.id is not None
        await app.memory.edit.supersede_memory(owner.scope, old.id, by=new.id)
    for old in olds:
        assert old.id is not None
        await app.memory.edit.restore_memory(owner.scope, old.id)
        begins.append((await get(app, owner, new.id)).valid_from is not None)
    assert begins == [True, False]


async def test_a_correction_begins_where_the_corrected_memory_ends(
    app: Application, owner: Caller, clock: Clock
) -> None:
    first = await app.memory.write.write_memory(owner.scope, draft(OSLO))
    assert first.id is not None
    clock.move(days=2)
    corrected = await app.memory.correct.correct_memory(
        owner.scope, Correction("maya", first.id, "The user paints.", "superseded")
    )
    assert (await get(app, owner, first.id)).valid_to == (await get(app, owner, corrected.id)).valid_from
    again = await app.memory.correct.correct_memory(
        owner.scope, Correction("maya", corrected.id, "The user sculpts.", "wrong")
    )
    assert (await get(app, owner, again.id)).valid_from is None  # what was wrong was never so


async def test_a_write_that_is_closed_at_once_says_so(app: Application, owner: Caller) -> None:
    stored = await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    key = IdempotencyKey("import", "one", b"body")
    old = draft(OSLO, created_at=datetime(2020, 1, 1, tzinfo=UTC))
    for _attempt in range(2):
        written = await app.memory.write.write_memory(owner.scope, old, key=key)
        told = written.action, written.state, written.superseded_by
        assert told == ("created", MemoryState.superseded, stored.id)
    assert (await get(app, owner, stored.id)).valid_from is not None


async def test_what_was_never_so_is_retracted(app: Application, owner: Caller, clock: Clock) -> None:
    first = await app.memory.write.write_memory(owner.scope, draft(OSLO))
    clock.move(days=2)
    second = await app.memory.write.write_memory(owner.scope, draft("I never lived in Oslo."))
    old = await get(app, owner, first.id)
    assert (old.state, old.superseded_by, old.valid_to) == (MemoryState.retracted, None, None)
    assert (await get(app, owner, second.id)).valid_from is None


async def test_of_a_batch_only_the_backdated_line_is_written_alone(
    app: Application, owner: Caller, sql: asyncpg.Connection
) -> None:
    await app.memory.write.write_memory(owner.scope, draft(BERGEN))
    early = datetime(2020, 1, 1, tzinfo=UTC)
    drafts = [draft("The user paints."), draft(OSLO, created_at=early), draft("The cat is grey.")]
    lines = [BulkLine(at, line) for at, line in enumerate(drafts)]
    results = [result.outcome async for result in app.memory.bulk.write_lines(owner.scope, lines)]
    assert [getattr(one, "state", None) for one in results] == [None, MemoryState.superseded, None]
    stamps = await sql.fetch(
        "SELECT h.stamp FROM history h JOIN memories m ON m.id::text = h.memory_id WHERE m.text = ANY ($1)",
        [drafts[0].text, drafts[2].text],
    )
    assert len({row["stamp"] for row in stamps}) == 1


async def test_an_overdue_memory_is_restored_before_the_job_has_come(
    app: Application, owner: Caller, clock: Clock
) -> None:
    written = await app.memory.write.write_memory(owner.scope, draft(OSLO, expires_at=clock.now() + timedelta(days=1)))
    assert written.id is not None
    with pytest.raises(WrongState):
        await app.memory.edit.restore_memory(owner.scope, written.id)
    clock.move(days=2)
    restored = await app.memory.edit.restore_memory(owner.scope, written.id)
    assert (restored.state, restored.expires_at) == (MemoryState.active, None)
