"""Batches: edits and deletions by filter, their undo, and what they leave as it is (`docs/contract.md`, Memory)."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import (
    CategoryNotAllowed,
    IdempotencyMismatch,
    InvalidInput,
    NotFound,
    TooManyOperations,
    UnknownCategory,
)
from app.domain.filters import Filters
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.batches import BatchEdit, BatchTooLarge, UnexpectedCount
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.usecases.memory import batch_plans
from app.usecases.memory.batch_plans import MatchingBatch
from app.usecases.memory.batches import BatchResult
from app.usecases.tenancy.rules import RulesDraft
from tests.factories import Caller, Clock, draft, make_caller
from tests.placed_chunks import store_document
from tests.usecases.conftest import Configured
from tests.usecases.crowd import SeededEmbedder
from tests.usecases.stored import history_of, in_line

TEXTS = ("Maya drinks oat milk.", "Maya plays chess.", "Maya swims on Mondays.")
MAYAS = Filters(user_id="maya")


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model: only equal texts are near each other."""
    return SeededEmbedder()


@pytest.fixture
async def memories(app: Application, caller: Caller) -> list[Memory]:
    """Three memories of maya, the first in thread t1, and one of leo."""
    await write(app, caller, "Leo drinks tea.", user_id="leo")
    first = await write(app, caller, TEXTS[0], thread_id="t1", tags=("diet", "old"), metadata={"from": "form", "n": 1})
    return [first, *[await write(app, caller, text) for text in TEXTS[1:]]]


async def write(app: Application, caller: Caller, text: str, **fields: Any) -> Memory:
    written = await app.memory.write.write_memory(caller.scope, draft(text, **fields))
    assert written.id is not None
    return await app.memory.read.get_memory(caller.scope, written.id)


def matching(filters: Filters, edit: BatchEdit | None, expected: int | None = None) -> MatchingBatch:
    return MatchingBatch(MemoryListing(filters), edit, expected)


async def edit(app: Application, caller: Caller, filters: Filters = MAYAS, **changes: Any) -> BatchResult:
    return await app.memory.batches.change_matching(caller.scope, matching(filters, BatchEdit(**changes)))


async def delete(app: Application, caller: Caller, filters: Filters = MAYAS) -> BatchResult:
    return await app.memory.batches.change_matching(caller.scope, matching(filters, None))


async def undo(app: Application, caller: Caller, batch: BatchResult) -> BatchResult:
    assert batch.batch_id is not None
    return await app.memory.batches.undo_batch(caller.scope, batch.batch_id)


async def now_of(app: Application, caller: Caller, memories: list[Memory]) -> list[Memory]:
    return [await app.memory.read.get_memory(caller.scope, memory.id) for memory in memories]


def content(memory: Memory) -> Memory:
    """Return the memory without its version and the time of its last change."""
    return replace(memory, version=0, updated_at=memory.created_at)


async def test_an_edit_changes_what_it_names_in_every_match_and_records_one_batch(
    app: Application, caller: Caller, memories: list[Memory], sql: asyncpg.Connection
) -> None:
    changes: dict[str, Any] = {"importance": 5, "add_tags": ("seen",), "remove_tags": ("old",)}
    result = await edit(app, caller, **changes, metadata={"n": None, "checked": True}, category="goals")
    assert (result.matched, result.changed, result.skipped, result.left) == (3, 3, {}, ())
    after = await now_of(app, caller, memories)
    assert [m.category for m in after] == ["goals"] * 3
    assert [m.importance for m in after] == [5] * 3
    assert [m.tags for m in after] == [("diet", "seen"), ("seen",), ("seen",)]
    assert [m.metadata for m in after] == [{"from": "form", "checked": True}, {"checked": True}, {"checked": True}]
    assert [m.text for m in after] == list(TEXTS)
    assert sorted(m.id for m in result.sample) == sorted(m.id for m in after)
    for memory in memories:
        last = (await history_of(sql, memory.id))[-1]
        assert (last["event"], last["actor"], last["meta"]["batch"]) == (
            "UPDATE",
            caller.scope.actor_name,
            str(result.batch_id),
        )
    assert await sql.fetchval("SELECT count(DISTINCT stamp) FROM history WHERE meta ? 'batch'") == 1
    assert await sql.fetchval("SELECT rev FROM thread_revision WHERE thread_id = 't1'") == 2
    [batch] = (await app.memory.batches.list_batches(caller.scope, None, 10)).items
    assert (batch.id, batch.action, batch.user_id, batch.matched, batch.changed) == (
        result.batch_id,
        "edit",
        "maya",
        3,
        3,
    )
    assert (batch.filters, batch.undone_by) == ({"user_id": "maya"}, None)
    assert batch.changes["add_tags"] == ["seen"]


async def test_an_undo_puts_everything_back_and_can_be_undone_itself(
    app: Application, caller: Caller, memories: list[Memory]
) -> None:
    changed = await edit(app, caller, category="goals", importance=4, pinned=True, metadata={"a": [1]}, add_tags=("x",))
    edited = await now_of(app, caller, memories)
    undone = await undo(app, caller, changed)
    assert (undone.action, undone.undoes, undone.matched, undone.changed) == ("undo", changed.batch_id, 3, 3)
    assert [content(m) for m in await now_of(app, caller, memories)] == [content(m) for m in memories]
    assert changed.batch_id is not None
    assert (await app.memory.batches.get_batch(caller.scope, changed.batch_id)).undone_by == undone.batch_id
    again = await undo(app, caller, changed)
    assert (again.batch_id, again.changed, again.skipped) == (None, 0, {"undone": 3})
    redone = await undo(app, caller, undone)
    assert redone.changed == 3
    assert [content(m) for m in await now_of(app, caller, memories)] == [content(m) for m in edited]


async def test_a_deletion_is_soft_and_its_undo_restores(
    app: Application, caller: Caller, memories: list[Memory], clock: Clock, sql: asyncpg.Connection
) -> None:
    deleted = await delete(app, caller, Filters(user_id="maya", importance_max=5))
    assert (deleted.action, deleted.matched, deleted.changed) == ("delete", 3, 3)
    after = await now_of(app, caller, memories)
    assert {m.state for m in after} == {MemoryState.soft_deleted}
    assert all(m.purge_at is not None and m.purge_at > clock.now() for m in after)
    assert (await history_of(sql, memories[0].id))[-1]["event"] == "DELETE"
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE state = 'active'") == 1, "leo's stays"
    await undo(app, caller, deleted)
    assert [content(m) for m in await now_of(app, caller, memories)] == [content(m) for m in memories]
    assert (await history_of(sql, memories[0].id))[-1]["event"] == "RESTORE"
    redone = await undo(app, caller, await undo(app, caller, await delete(app, caller)))
    assert redone.changed == 3
    after = await now_of(app, caller, memories)
    assert {m.state for m in after} == {MemoryState.soft_deleted}
    assert all(m.purge_at is not None for m in after)


async def test_an_undo_leaves_what_was_changed_or_purged_since(
    app: Application, caller: Caller, memories: list[Memory]
) -> None:
    changed = await edit(app, caller, importance=5)
    await app.memory.edit.patch_memory(caller.scope, memories[0].id, {"importance": 1}, version=None)
    await app.memory.edit.purge_memory(caller.scope, memories[1].id)
    undone = await undo(app, caller, changed)
    assert (undone.matched, undone.changed) == (2, 1), "nothing is left of a purged memory"
    assert undone.left == ((memories[0].id, "changed"),)
    assert (await app.memory.read.get_memory(caller.scope, memories[0].id)).importance == 1
    assert (await app.memory.read.get_memory(caller.scope, memories[2].id)).importance == 2


async def test_an_undo_does_not_make_two_memories_with_one_text(
    app: Application, caller: Caller, memories: list[Memory]
) -> None:
    changed = await edit(app, caller, category="goals")
    await write(app, caller, TEXTS[1])
    undone = await undo(app, caller, changed)
    assert (undone.changed, undone.left) == (2, ((memories[1].id, "duplicate_text"),))
    deleted = await delete(app, caller, Filters(user_id="maya", category="preferences"))
    assert deleted.changed == 3
    await write(app, caller, TEXTS[1])
    assert (await undo(app, caller, deleted)).skipped == {"duplicate_text": 1}


async def test_an_undo_moves_nothing_into_a_category_that_the_tenant_dropped(app: Application, caller: Caller) -> None:
    await app.tenancy.rules.put_rules(caller.scope, RulesDraft({"categories": {"custom": [{"name": "recipes"}]}}))
    rice, oats = await write(app, caller, "Maya cooks rice.", category="recipes"), await write(app, caller, TEXTS[0])
    moved = await edit(app, caller, category="goals")
    await app.tenancy.rules.put_rules(caller.scope, RulesDraft({}))
    undone = await undo(app, caller, moved)
    assert (undone.changed, undone.left) == (1, ((rice.id, "unknown_category"),))
    assert [m.category for m in await now_of(app, caller, [rice, oats])] == ["goals", "preferences"]


async def test_a_move_does_not_make_two_memories_with_one_text(app: Application, caller: Caller) -> None:
    kept = await write(app, caller, TEXTS[0], category="goals")
    twin, first = await write(app, caller, TEXTS[0]), await write(app, caller, TEXTS[1])
    second = await write(app, caller, TEXTS[1], category="tasks")
    result = await edit(app, caller, category="goals", importance=5)
    assert (result.matched, result.changed) == (4, 2)
    assert dict(result.left) == {twin.id: "duplicate_text", second.id: "duplicate_text"}
    after = await now_of(app, caller, [kept, twin, first, second])
    assert [(m.category, m.importance) for m in after] == [("goals", 5), ("preferences", 2), ("goals", 5), ("tasks", 2)]


async def test_a_batch_leaves_what_no_single_edit_may_change(app: Application, caller: Caller) -> None:
    document = await store_document(app, caller.scope, "One.\n\nTwo.", user_id="maya")
    many = await write(app, caller, TEXTS[0], tags=tuple(f"t{n}" for n in range(50)))
    big = await write(app, caller, TEXTS[1], metadata={"text": "x" * 16_000})
    steps = "1. Open the door. 2. Close the door."
    procedure = await write(
        app, caller, "How to air a room.", type=MemoryType.procedural, category="procedural", steps_text=steps
    )
    result = await edit(app, caller, add_tags=("more",), metadata={"note": "y" * 1000}, category="goals")
    assert dict(result.left) == {
        **dict.fromkeys(document.chunks, "chunk"),
        many.id: "too_many_tags",
        big.id: "metadata_too_large",
        procedure.id: "procedural",
    }
    assert (result.batch_id, result.changed) == (None, 0)
    assert (await delete(app, caller)).skipped == {"chunk": 2}
    assert (await app.memory.read.get_memory(caller.scope, document.chunks[0])).state is MemoryState.active


async def test_a_long_turn_is_cut_again_only_if_its_chunks_are_gone(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    turn = await write(app, caller, "Long. " * 1000, type=MemoryType.turn, category="activity", role="user")
    await sql.execute("DELETE FROM jobs")
    await undo(app, caller, await delete(app, caller))
    [job] = await sql.fetch("SELECT kind, user_id, payload FROM jobs")
    assert (job["kind"], job["user_id"], job["payload"]) == ("turn_chunks", "maya", {"memory_id": str(turn.id)})
    await edit(app, caller, importance=5)
    assert await sql.fetchval("SELECT count(*) FROM jobs") == 1


async def test_a_dry_run_tells_and_changes_nothing(
    app: Application, caller: Caller, memories: list[Memory], sql: asyncpg.Connection
) -> None:
    batch = matching(MAYAS, BatchEdit(add_tags=("diet",)))
    told = await app.memory.batches.change_matching(caller.scope, batch, dry_run=True)
    assert (told.batch_id, told.matched, told.changed, told.skipped) == (None, 3, 2, {"unchanged": 1})
    assert {m.id for m in told.sample} == {m.id for m in memories[1:]}
    assert await now_of(app, caller, memories) == memories
    assert await sql.fetchval("SELECT count(*) FROM memory_batches") == 0


async def test_the_count_is_checked(app: Application, caller: Caller, memories: list[Memory]) -> None:
    for dry_run in (True, False):
        with pytest.raises(UnexpectedCount) as refused:
            await app.memory.batches.change_matching(caller.scope, matching(MAYAS, None, 4), dry_run=dry_run)
        assert refused.value.extra == {"matched": 3}
    assert await now_of(app, caller, memories) == memories
    assert (await app.memory.batches.change_matching(caller.scope, matching(MAYAS, None, 3))).changed == 3


async def test_a_batch_has_a_largest_size(configured: Configured, embedder: SeededEmbedder) -> None:
    app = await configured(policies={"write": {"batch_limit": 2}})
    caller = await make_caller(app)
    kept = [await write(app, caller, text) for text in TEXTS]
    for dry_run in (True, False):
        with pytest.raises(BatchTooLarge, match="3 memories match; one batch may change 2") as refused:
            await app.memory.batches.change_matching(caller.scope, matching(MAYAS, None), dry_run=dry_run)
        assert refused.value.extra == {"matched": 3}
    assert await now_of(app, caller, kept) == kept


@pytest.mark.parametrize(
    ("filters", "changes", "error"),
    [
        (Filters(), {"importance": 1}, InvalidInput),
        (MAYAS, {}, InvalidInput),
        (MAYAS, {"category": "nosuch"}, UnknownCategory),
        (MAYAS, {"category": "procedural"}, InvalidInput),
    ],
)
async def test_a_batch_without_a_filter_or_a_valid_change_is_refused(
    app: Application, caller: Caller, filters: Filters, changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await edit(app, caller, filters, **changes)


async def test_every_tenant_has_its_own_batches(app: Application, caller: Caller, memories: list[Memory]) -> None:
    stranger = await make_caller(app)
    assert (await delete(app, stranger)).matched == 0
    changed = await edit(app, caller, importance=5)
    assert (await app.memory.batches.list_batches(stranger.scope, None, 10)).items == []
    for call in (app.memory.batches.get_batch, app.memory.batches.undo_batch):
        with pytest.raises(NotFound):
            await call(stranger.scope, changed.batch_id)
    with pytest.raises(NotFound):
        await app.memory.batches.undo_batch(caller.scope, uuid4())


async def test_a_bound_key_changes_and_sees_its_categories_alone(app: Application, caller: Caller) -> None:
    stylist = await make_caller(app, ("query", "write"), ["stylist"], caller)
    task = await write(app, caller, "Maya renews her passport.", category="tasks")
    taste = await write(app, caller, TEXTS[0])
    for filters, changes in ((Filters(category="tasks"), {"importance": 1}), (MAYAS, {"category": "tasks"})):
        with pytest.raises(CategoryNotAllowed):
            await edit(app, stylist, filters, **changes)
    own = await edit(app, stylist, importance=5)
    assert [m.id for m in own.sample] == [taste.id]
    whole = await edit(app, caller, pinned=True)
    assert whole.changed == 2
    assert [b.id for b in (await app.memory.batches.list_batches(stylist.scope, None, 10)).items] == [own.batch_id]
    with pytest.raises(NotFound):
        await undo(app, stylist, whole)
    moved = await edit(app, caller, Filters(user_id="maya", category="preferences"), category="tasks")
    with pytest.raises(NotFound):
        await undo(app, stylist, moved)
    assert (await app.memory.read.get_memory(caller.scope, task.id)).pinned


async def test_a_retried_batch_answers_alike_and_does_nothing_again(
    app: Application, caller: Caller, memories: list[Memory], sql: asyncpg.Connection
) -> None:
    key = IdempotencyKey("POST /memory/batches", "k", b"body")
    batch = matching(MAYAS, BatchEdit(importance=5))
    results = await asyncio.gather(
        *(app.memory.batches.change_matching(caller.scope, batch, key=key) for _attempt in range(3))
    )
    assert len({result.batch_id for result in results}) == 1
    assert {(result.matched, result.changed) for result in results} == {(3, 3)}
    assert await sql.fetchval("SELECT count(*) FROM memory_batches") == 1
    assert {m.version for m in await now_of(app, caller, memories)} == {2}
    with pytest.raises(IdempotencyMismatch):
        await app.memory.batches.change_matching(caller.scope, batch, key=replace(key, body_hash=b"other"))
    nothing = replace(key, key="empty")
    empty = matching(Filters(user_id="nobody"), None)
    assert (await app.memory.batches.change_matching(caller.scope, empty, key=nothing)).matched == 0
    await write(app, caller, "Nobody is here.", user_id="nobody")
    assert (await app.memory.batches.change_matching(caller.scope, empty, key=nothing)).matched == 0, (
        "it was answered before"
    )


async def test_a_batch_that_is_overtaken_takes_what_it_finds(
    app: Application, caller: Caller, memories: list[Memory], sql: asyncpg.Connection
) -> None:
    patch = app.memory.edit.patch_memory(caller.scope, memories[0].id, {"category": "goals"}, version=None)
    batch = edit(app, caller, Filters(user_id="maya", category="preferences"), importance=5)
    _patched, changed = await in_line(sql, memories[0].id, patch, batch)
    assert (changed.matched, changed.changed) == (2, 2)
    assert [m.importance for m in await now_of(app, caller, memories)] == [2, 5, 5]


@pytest.mark.long
async def test_overlapping_batches_and_edits_all_succeed(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    stored = [await write(app, caller, f"Fact number {n}.", thread_id=f"t{n % 3}") for n in range(12)]
    work: list[Any] = [edit(app, caller, importance=1 + n % 5, add_tags=(f"b{n}",)) for n in range(4)]
    work += [edit(app, caller, Filters(thread_id=f"t{n}"), add_tags=(f"c{n}",)) for n in range(3)]
    work += [app.memory.edit.pin_memory(caller.scope, memory.id, True) for memory in stored[:4]]
    await asyncio.gather(*work)
    after = await now_of(app, caller, stored)
    assert all({"b0", "b1", "b2", "b3", f"c{m.thread_id[1]}"} == set(m.tags) for m in after if m.thread_id)
    assert [m.pinned for m in after] == [True] * 4 + [False] * 8


@pytest.mark.long
async def test_memories_of_many_threads_change_in_one_transaction(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    for start in range(0, 300, 100):
        await asyncio.gather(
            *(write(app, caller, f"Fact number {n}.", thread_id=f"t{n % 150}") for n in range(start, start + 100))
        )
    changed = await edit(app, caller, importance=5)
    assert (changed.matched, changed.changed, len(changed.sample)) == (300, 300, 10)
    assert await sql.fetchval("SELECT count(DISTINCT stamp) FROM history WHERE event = 'UPDATE'") == 1
    assert await sql.fetchval("SELECT sum(rev) FROM thread_revision") == 600
    assert (await undo(app, caller, changed)).changed == 300


@pytest.mark.parametrize("words", [None, "fact"])
async def test_a_batch_reads_its_memories_in_pages(
    app: Application, caller: Caller, monkeypatch: pytest.MonkeyPatch, words: str | None
) -> None:
    monkeypatch.setattr(batch_plans, "PAGE", 3)
    stored = [await write(app, caller, f"Fact number {n}.", importance=1 + n % 4) for n in range(10)]
    wanted = MemoryListing(Filters(importance_max=3), words=words)
    for expected, edit in ((8, BatchEdit(pinned=True)), (8, None)):
        done = await app.memory.batches.change_matching(caller.scope, MatchingBatch(wanted, edit, expected))
        assert (done.matched, done.changed) == (8, 8)
        assert {m.id for m in await now_of(app, caller, stored) if m.version == 1} == {stored[3].id, stored[7].id}
        await undo(app, caller, done)
        monkeypatch.setattr(batch_plans, "PAGE", 4)


def test_a_batch_of_memories_that_are_not_active_is_refused() -> None:
    with pytest.raises(InvalidInput, match="active"):
        MatchingBatch(MemoryListing(MAYAS, state="soft_deleted"), None)


async def test_each_changed_memory_counts_as_a_request(configured: Configured, embedder: SeededEmbedder) -> None:
    app = await configured(policies={"limits": {"requests_per_minute": {"key": 2, "tenant": None}}})
    caller = await make_caller(app)
    kept = [await write(app, caller, text) for text in TEXTS]
    with pytest.raises(TooManyOperations):
        await delete(app, caller)
    assert await now_of(app, caller, kept) == kept


async def test_an_erasure_takes_the_batches_of_the_user(
    app: Application, caller: Caller, memories: list[Memory], sql: asyncpg.Connection
) -> None:
    own, every = await edit(app, caller, importance=5), await edit(app, caller, Filters(pinned=False), pinned=True)
    records = [
        r async for r in await app.retention.export.export_records(caller.scope, "maya") if r["kind"] == "memory_batch"
    ]
    assert [UUID(str(r["id"])) for r in records] == [own.batch_id]
    receipt = await app.retention.erase.erase_user(caller.scope, "maya")
    assert receipt.counts["memory_batches"] == 1
    [left] = (await app.memory.batches.list_batches(caller.scope, None, 10)).items
    assert (left.id, left.user_id) == (every.batch_id, None)
    assert (await undo(app, caller, every)).matched == 1, "leo's"
    assert await sql.fetchval("SELECT count(*) FROM memory_batches WHERE memory_batches::text LIKE '%maya%'") == 0


async def test_an_erasure_takes_the_names_of_the_user_from_the_batches_of_several(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    own, others = "talk of maya", "talk of leo"
    of_maya = await write(app, caller, "Maya drinks oat milk.", thread_id=own, actor_id="maya")
    of_leo = await write(app, caller, "Leo drinks oat milk.", thread_id=others, user_id="leo", actor_id="maya")
    by_actor = await edit(app, caller, Filters(actor_id="maya"), importance=5)
    assert by_actor.changed == 2
    in_threads = [await edit(app, caller, Filters(thread_id=thread), pinned=True) for thread in (own, others)]
    moved = "UPDATE memory_batches SET user_id = NULL WHERE id = $1"
    await sql.execute(moved, in_threads[0].batch_id)  # as if others had been in the thread, and are not any more
    assert (await app.retention.erase.erase_user(caller.scope, "maya")).counts["memory_batches"] == 0
    listed = {
        batch.id: batch.filters for batch in (await app.memory.batches.list_batches(caller.scope, None, 10)).items
    }
    assert set(listed) == {by_actor.batch_id, *(batch.batch_id for batch in in_threads)}
    assert [listed[batch.batch_id]["thread_id"].split(":")[0] for batch in in_threads if batch.batch_id] == [
        "erased",
        others,
    ]
    assert "maya" not in str(listed.values())
    assert str(of_maya.id) not in str(listed.values())
    await undo(app, caller, in_threads[1])
    assert (await undo(app, caller, by_actor)).matched == 1, "leo's is still found"
    assert (await app.memory.read.get_memory(caller.scope, of_leo.id)).pinned is False


async def test_an_erasure_takes_the_ids_of_the_user_from_the_answers_of_batches(
    app: Application, caller: Caller, sql: asyncpg.Connection
) -> None:
    batch = matching(Filters(category="tasks"), BatchEdit(importance=5))
    unchanged = {
        name: await write(app, caller, "It stays.", category="tasks", user_id=name, importance=5) for name in "ab"
    }
    changed = {name: await write(app, caller, "It changes.", category="tasks", user_id=name) for name in "ab"}
    key = IdempotencyKey("POST /memory/batches", "k", b"body")
    first = await app.memory.batches.change_matching(caller.scope, batch, key=key)
    assert (first.changed, len(first.left)) == (2, 2)
    await app.retention.erase.erase_user(caller.scope, "a")
    response = await sql.fetchval("SELECT response::text FROM idempotency_keys WHERE key = 'k'")
    assert str(changed["a"].id) not in response
    assert str(unchanged["a"].id) not in response
    again = await app.memory.batches.change_matching(caller.scope, batch, key=key)
    assert (again.batch_id, again.sample_ids) == (first.batch_id, (changed["b"].id,))
    assert again.left == ((unchanged["b"].id, "unchanged"),)


async def test_an_erasure_waits_for_a_batch_that_has_begun(
    app: Application, caller: Caller, memories: list[Memory], sql: asyncpg.Connection
) -> None:
    batch, erasure = edit(app, caller, importance=5), app.retention.erase.erase_user(caller.scope, "maya")
    changed, receipt = await in_line(sql, memories[2].id, batch, erasure)
    assert (changed.changed, receipt.counts["memory_batches"]) == (3, 1)
    assert await sql.fetchval("SELECT count(*) FROM memory_batches WHERE user_id = 'maya'") == 0
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE user_id = 'maya'") == 0
