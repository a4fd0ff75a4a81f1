"""Changes to one memory: patch, pin, delete, restore, purge (`docs/contract.md`, Memory)."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import (
    CategoryNotAllowed,
    DuplicateText,
    EmptyText,
    InvalidInput,
    NotFound,
    TextTooLong,
    UnknownCategory,
    VersionConflict,
    WrongState,
)
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.outages import EmbedderUnavailable
from app.ports import Embedder
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.stored import VECTORS, events_of, history_of, in_line, recorded, vector_of


@pytest.fixture
async def memory(app: Application, caller: Caller) -> Memory:
    """A stored memory in thread t1."""
    written = await app.memory.write.write_memory(caller.scope, draft(thread_id="t1", tags=("diet",)))
    assert written.id is not None
    return await app.memory.read.get_memory(caller.scope, written.id)


async def test_a_patch_sets_what_it_names_and_records_both_sides(
    app: Application, caller: Caller, memory: Memory, clock: Clock, sql: asyncpg.Connection
) -> None:
    clock.move(hours=1)
    fields = {"importance": 5, "tags": ["drink"], "metadata": {"checked": True}}
    after = await app.memory.edit.patch_memory(caller.scope, memory.id, fields, version=memory.version)
    assert (after.importance, after.tags, after.metadata) == (5, ("drink",), {"checked": True})
    assert (after.text, after.version, after.created_at) == (memory.text, 2, memory.created_at)
    assert after.updated_at - memory.updated_at >= timedelta(hours=1)
    assert after == await app.memory.read.get_memory(caller.scope, memory.id)
    update = (await history_of(sql, memory.id))[-1]
    assert (update["event"], update["actor"]) == ("UPDATE", caller.scope.actor_name)
    assert [update["meta"][side]["importance"] for side in ("before", "after")] == [2, 5]
    assert await sql.fetchval("SELECT rev FROM thread_revision WHERE thread_id = 't1'") == 2


async def test_a_new_text_moves_the_vector_and_another_category_moves_with_it(
    app: Application, caller: Caller, memory: Memory, sql: asyncpg.Connection, embedder: Embedder
) -> None:
    text = "Maya swims on Mondays."
    await app.memory.edit.patch_memory(caller.scope, memory.id, {"text": text, "category": "goals"}, version=None)
    [expected] = await embedder.embed_texts([text])
    assert float(await vector_of(sql, memory.id) @ expected) == pytest.approx(1, abs=1e-3)
    assert await sql.fetchval(f"SELECT category FROM {VECTORS} WHERE memory_id = $1", memory.id) == "goals"
    again = await app.memory.write.write_memory(caller.scope, draft(text, category="goals"))
    assert again.id == memory.id


@pytest.mark.parametrize(
    "fields",
    [{}, {"importance": 2}, {"pinned": False}, {"tags": ["diet"]}, {"text": "  Maya drinks\toat milk. "}],
)
async def test_a_patch_that_changes_nothing_records_nothing(
    app: Application, caller: Caller, memory: Memory, sql: asyncpg.Connection, fields: dict[str, Any]
) -> None:
    before = await recorded(sql)
    after = await app.memory.edit.patch_memory(caller.scope, memory.id, fields, version=1)
    assert (after.version, after.updated_at) == (1, memory.updated_at)
    assert await recorded(sql) == before


@pytest.mark.parametrize("fields", [{"importance": 4}, {"importance": 2}])
async def test_a_patch_of_another_version_is_refused_even_when_it_would_change_nothing(
    app: Application, caller: Caller, memory: Memory, sql: asyncpg.Connection, fields: dict[str, Any]
) -> None:
    await app.memory.edit.pin_memory(caller.scope, memory.id, True)
    before = await recorded(sql)
    with pytest.raises(VersionConflict):
        await app.memory.edit.patch_memory(caller.scope, memory.id, fields, version=1)
    assert await recorded(sql) == before


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"text": " "}, EmptyText),
        ({"text": "a" * 281}, TextTooLong),
        ({"category": "nowhere"}, UnknownCategory),
        ({"category": "procedural"}, InvalidInput),
        ({"steps_text": "1. Ask."}, InvalidInput),
    ],
)
async def test_a_patch_obeys_the_rules_of_writing(
    app: Application, caller: Caller, memory: Memory, fields: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await app.memory.edit.patch_memory(caller.scope, memory.id, fields, version=None)
    assert (await app.memory.read.get_memory(caller.scope, memory.id)).version == 1


async def test_a_patch_may_not_repeat_another_active_memory(app: Application, caller: Caller, memory: Memory) -> None:
    other = await app.memory.write.write_memory(caller.scope, draft("Maya swims on Mondays."))
    with pytest.raises(DuplicateText):
        await app.memory.edit.patch_memory(caller.scope, other.id, {"text": memory.text.upper()}, version=None)
    elsewhere = await app.memory.write.write_memory(caller.scope, draft(category="goals"))
    with pytest.raises(DuplicateText):
        await app.memory.edit.patch_memory(caller.scope, elsewhere.id, {"category": "preferences"}, version=None)


async def test_of_two_patches_with_the_same_version_one_wins(
    app: Application, caller: Caller, memory: Memory, sql: asyncpg.Connection
) -> None:
    patches = [app.memory.edit.patch_memory(caller.scope, memory.id, {"importance": n}, version=1) for n in (4, 5)]
    won, lost = await in_line(sql, memory.id, *patches)
    assert won.importance == 4
    assert isinstance(lost, VersionConflict)


async def test_a_failed_embedder_changes_nothing(
    app: Application,
    caller: Caller,
    memory: Memory,
    sql: asyncpg.Connection,
    embedder: Embedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await app.parts.access.flush_pending()
    before = await recorded(sql)
    monkeypatch.setattr(embedder, "failing", True)
    with pytest.raises(EmbedderUnavailable):
        await app.memory.edit.patch_memory(caller.scope, memory.id, {"text": "Maya swims."}, version=None)
    assert await recorded(sql) == before
    assert (await events_of(sql))[-1] == ("hotpath", "update", "error")


async def test_pinning_twice_is_one_change(app: Application, caller: Caller, memory: Memory) -> None:
    for _ in range(2):
        assert (await app.memory.edit.pin_memory(caller.scope, memory.id, True)).version == 2
    assert (await app.memory.edit.pin_memory(caller.scope, memory.id, False)).pinned is False


async def test_a_soft_deleted_memory_can_be_restored_until_its_purge_date(
    app: Application, caller: Caller, memory: Memory, clock: Clock, sql: asyncpg.Connection
) -> None:
    gone = await app.memory.edit.soft_delete_memory(caller.scope, memory.id)
    assert gone.state is MemoryState.soft_deleted
    assert gone.purge_at is not None
    assert timedelta(days=29) < gone.purge_at - clock.now() <= timedelta(days=30)
    back = await app.memory.edit.restore_memory(caller.scope, memory.id)
    assert (back.state, back.purge_at, back.version, back.text) == (MemoryState.active, None, 3, memory.text)
    assert [row["event"] for row in await history_of(sql, memory.id)] == ["ADD", "DELETE", "RESTORE"]
    told = await sql.fetch("SELECT event FROM change_log ORDER BY rev")
    assert [row["event"] for row in told] == ["created", "soft_deleted", "restored"]
    assert await sql.fetchval(f"SELECT state FROM {VECTORS} WHERE memory_id = $1", memory.id) == "active"


async def test_deleting_twice_changes_nothing(
    app: Application, caller: Caller, memory: Memory, sql: asyncpg.Connection, clock: Clock
) -> None:
    first = await app.memory.edit.soft_delete_memory(caller.scope, memory.id)
    before = await recorded(sql)
    clock.move(days=1)
    second = await app.memory.edit.soft_delete_memory(caller.scope, memory.id)
    assert (second.purge_at, second.version) == (first.purge_at, 2)
    assert await recorded(sql) == before


async def test_deleting_twice_at_the_same_moment_changes_nothing_either(
    app: Application, caller: Caller, memory: Memory, sql: asyncpg.Connection
) -> None:
    one, two = await in_line(
        sql, memory.id, *(app.memory.edit.soft_delete_memory(caller.scope, memory.id) for _ in range(2))
    )
    assert [one.state, two.state] == [MemoryState.soft_deleted] * 2
    assert two.version == 2


async def test_a_memory_said_again_since_blocks_the_old_ones_return(
    app: Application, caller: Caller, memory: Memory
) -> None:
    await app.memory.edit.soft_delete_memory(caller.scope, memory.id)
    again = await app.memory.write.write_memory(caller.scope, draft())
    assert again.action == "created"
    with pytest.raises(DuplicateText):
        await app.memory.edit.restore_memory(caller.scope, memory.id)
    await app.memory.edit.purge_memory(caller.scope, again.id)
    assert (await app.memory.edit.restore_memory(caller.scope, memory.id)).state is MemoryState.active


async def test_what_is_not_active_is_neither_patched_nor_pinned(
    app: Application, caller: Caller, memory: Memory
) -> None:
    with pytest.raises(WrongState, match="active"):
        await app.memory.edit.restore_memory(caller.scope, memory.id)
    await app.memory.edit.soft_delete_memory(caller.scope, memory.id)
    with pytest.raises(WrongState, match="soft_deleted"):
        await app.memory.edit.patch_memory(caller.scope, memory.id, {"importance": 5}, version=None)
    with pytest.raises(WrongState):
        await app.memory.edit.pin_memory(caller.scope, memory.id, True)


async def test_a_patch_of_a_deleted_memory_is_refused_even_when_it_would_change_nothing(
    app: Application, caller: Caller, memory: Memory
) -> None:
    await app.memory.edit.soft_delete_memory(caller.scope, memory.id)
    with pytest.raises(WrongState):
        await app.memory.edit.patch_memory(caller.scope, memory.id, {"importance": memory.importance}, version=None)


async def test_a_procedures_steps_can_be_changed(app: Application, caller: Caller) -> None:
    new = draft("Make tea", category="procedural", type=MemoryType.procedural, steps_text="1. Boil.")
    written = await app.memory.write.write_memory(caller.scope, new)
    after = await app.memory.edit.patch_memory(
        caller.scope, written.id, {"steps_text": "1. Boil.\n2. Pour."}, version=None
    )
    assert after.steps_text == "1. Boil.\n2. Pour."
    with pytest.raises(InvalidInput):
        await app.memory.edit.patch_memory(caller.scope, written.id, {"category": "goals"}, version=None)


async def test_nobody_edits_what_is_not_theirs_to_see(app: Application, caller: Caller, memory: Memory) -> None:
    stranger = (await make_caller(app)).scope
    planner = (await make_caller(app, ("write",), ["planner"], tenant=caller)).scope
    stylist = (await make_caller(app, ("write",), ["stylist"], tenant=caller)).scope
    for scope in (stranger, planner):
        for edit in (app.memory.edit.soft_delete_memory, app.memory.edit.restore_memory, app.memory.edit.purge_memory):
            with pytest.raises(NotFound):
                await edit(scope, memory.id)
        with pytest.raises(NotFound):
            await app.memory.edit.patch_memory(scope, memory.id, {"importance": 5}, version=None)
    with pytest.raises(CategoryNotAllowed, match="goals"):
        await app.memory.edit.patch_memory(stylist, memory.id, {"category": "goals"}, version=None)
    with pytest.raises(NotFound):
        await app.memory.edit.pin_memory(caller.scope, uuid4(), True)
    assert (await app.memory.edit.pin_memory(stylist, memory.id, True)).version == 2


async def test_a_bound_key_edits_no_memory_that_left_its_categories_meanwhile(
    app: Application, caller: Caller, memory: Memory, sql: asyncpg.Connection
) -> None:
    stylist = (await make_caller(app, ("write",), ["stylist"], tenant=caller)).scope
    moves = app.memory.edit.patch_memory(caller.scope, memory.id, {"category": "goals"}, version=None)
    moved, pinned = await in_line(sql, memory.id, moves, app.memory.edit.pin_memory(stylist, memory.id, True))
    assert moved.category == "goals"
    assert isinstance(pinned, NotFound)
    assert not (await app.memory.read.get_memory(caller.scope, memory.id)).pinned


async def test_a_bound_key_edits_what_changed_meanwhile_and_is_still_its_own(
    app: Application, caller: Caller, memory: Memory, sql: asyncpg.Connection
) -> None:
    stylist = (await make_caller(app, ("write",), ["stylist"], tenant=caller)).scope
    weighs = app.memory.edit.patch_memory(caller.scope, memory.id, {"importance": 5}, version=None)
    weighed, pinned = await in_line(sql, memory.id, weighs, app.memory.edit.pin_memory(stylist, memory.id, True))
    assert (weighed.version, pinned.version, pinned.pinned, pinned.importance) == (2, 3, True, 5)


async def told(sql: asyncpg.Connection) -> list[tuple[str, str, int]]:
    """Return event, text and importance of every revision of thread t1, in order."""
    rows = await sql.fetch("SELECT event, meta FROM change_log WHERE thread_id = 't1' ORDER BY rev")
    return [(row["event"], row["meta"].get("text"), row["meta"]["importance"]) for row in rows]


PORTO = "Maya lives in Porto."


@pytest.mark.parametrize("agents", [None, ["stylist"]])
async def test_what_is_told_of_a_change_is_what_is_stored_though_another_came_before(
    app: Application, caller: Caller, memory: Memory, sql: asyncpg.Connection, agents: list[str] | None
) -> None:
    scope = (await make_caller(app, ("write",), agents, tenant=caller)).scope
    moves = app.memory.edit.patch_memory(caller.scope, memory.id, {"text": PORTO, "importance": 5}, version=None)
    _, pinned = await in_line(sql, memory.id, moves, app.memory.edit.pin_memory(scope, memory.id, True))
    assert (pinned.text, pinned.importance, pinned.version) == (PORTO, 5, 3)
    weighs = app.memory.edit.patch_memory(caller.scope, memory.id, {"importance": 3}, version=None)
    moves = app.memory.edit.patch_memory(scope, memory.id, {"text": "Maya lives in Ghent."}, version=None)
    await in_line(sql, memory.id, weighs, moves)
    weighs = app.memory.edit.patch_memory(caller.scope, memory.id, {"text": PORTO, "importance": 4}, version=None)
    await in_line(sql, memory.id, weighs, app.memory.edit.soft_delete_memory(scope, memory.id))
    assert (await told(sql))[1:] == [
        ("updated", PORTO, 5),
        ("updated", PORTO, 5),
        ("updated", PORTO, 3),
        ("updated", "Maya lives in Ghent.", 3),
        ("updated", PORTO, 4),
        ("soft_deleted", PORTO, 4),
    ]


async def test_edits_leave_their_events(
    app: Application, caller: Caller, memory: Memory, sql: asyncpg.Connection
) -> None:
    await app.parts.access.flush_pending()
    written = len(await events_of(sql))
    await app.memory.edit.pin_memory(caller.scope, memory.id, True)
    await app.memory.edit.soft_delete_memory(caller.scope, memory.id)
    await app.memory.edit.restore_memory(caller.scope, memory.id)
    await app.memory.edit.purge_memory(caller.scope, memory.id)
    events = [("hotpath", op, "ok") for op in ("update", "delete", "update", "delete")]
    assert (await events_of(sql))[written:] == events
