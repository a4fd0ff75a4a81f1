"""One call of the journal: what it changes, what it records, and what it refuses."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.errors import DuplicateText, IdempotencyMismatch, MnemaError, NotFound, VersionConflict, WrongState
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import MemoryType
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.journal import Journal, KeyRecord, Outcome
from app.storage.memory.memories import MemoryStorage
from app.storage.uow import UnitOfWork
from tests.storage.building import change, creation, remembered, vector_of

KEY = IdempotencyKey("POST /memory", "k", b"body")


async def history(uow: UnitOfWork, memories: MemoryStorage, scope: Principal, memory_id: UUID) -> list[Any]:
    """Return a memory's history, oldest first."""
    async with uow.read(scope) as tx:
        return (await memories.list_history(tx, scope, memory_id, None, 100))[::-1]


async def all_rows(superuser: asyncpg.Connection, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await superuser.fetch(f"SELECT * FROM {table} ORDER BY 1, 2, 3")]


def _row(made: MemoryChange) -> dict[str, Any]:
    """Return a change as the row that `apply_changes` takes."""
    names = ("user_id", "category", "text", "type", "importance", "pinned", "metadata")
    row = {name: getattr(made.new, name) for name in names}
    times = dict.fromkeys(("created_at", "updated_at"), "2026-01-01T00:00:00Z")
    return row | times | {"id": str(made.memory_id), "tags": [], "text_hash": "\\x00"}


# --- what is recorded


async def test_a_creation_leaves_its_whole_record(
    uow: UnitOfWork, journal: Journal, memories: MemoryStorage, superuser: asyncpg.Connection, a: Principal
) -> None:
    new = replace(creation(a, threads=["t"]), observations=(Observation("hotpath", "create", thread_id="t", sim=0.5),))
    recorded = (await journal.record(a, [new])).recorded[0]
    assert (recorded.memory.id, recorded.memory.version, recorded.revisions) == (new.memory_id, 1, {"t": 1})
    [row] = await history(uow, memories, a, new.memory_id)
    assert (row.event, row.actor, row.old_ref, row.new_ref) == ("ADD", a.actor_name, None, None)
    assert "before" not in row.meta
    assert (row.meta["after"]["text"], row.meta["after"]["category"]) == (new.new.text, "preferences")
    [log] = await all_rows(superuser, "change_log")
    assert (log["thread_id"], log["rev"], log["event"]) == ("t", 1, "created")
    assert (log["category_before"], log["category_after"]) == (None, "preferences")
    [event] = await all_rows(superuser, "events")
    assert (event["node"], event["op"], event["status"], event["sim"]) == ("hotpath", "create", "ok", 0.5)


async def test_an_update_records_the_row_before_and_after(
    uow: UnitOfWork, journal: Journal, memories: MemoryStorage, superuser: asyncpg.Connection, a: Principal
) -> None:
    memory = await remembered(journal, a)
    fields = {"text": "Maya drinks tea.", "category": "profile", "importance": 5, "pinned": True, "tags": ["x"]}
    edit = change(
        a, memory.id, fields=fields, vector=vector_of("tea"), threads=("t", "u"), history_meta={"why": "asked"}
    )
    after = (await journal.record(a, [edit])).recorded[0]
    assert after.revisions == {"t": 1, "u": 1}
    assert (after.memory.text, after.memory.category, after.memory.version) == ("Maya drinks tea.", "profile", 2)
    assert (after.memory.importance, after.memory.pinned, after.memory.tags) == (5, True, ("x",))
    _, row = await history(uow, memories, a, memory.id)
    assert (row.event, row.meta["before"]["text"], row.meta["after"]["text"]) == (
        "UPDATE",
        memory.text,
        "Maya drinks tea.",
    )
    assert (row.meta["before"]["version"], row.meta["after"]["version"], row.meta["why"]) == (1, 2, "asked")
    logged = [(log["category_before"], log["category_after"]) for log in await all_rows(superuser, "change_log")]
    assert logged == [("preferences", "profile")] * 2


async def test_what_is_not_named_stays(journal: Journal, a: Principal) -> None:
    memory = await remembered(journal, a, thread_id="t", metadata={"a": [1]}, source={"quote": "milk"}, tags=("x",))
    edited = (await journal.record(a, [change(a, memory.id, fields={"importance": 5})])).recorded[0].memory
    assert replace(edited, importance=memory.importance, version=1, updated_at=memory.updated_at) == memory


async def test_recreating_leaves_the_old_one_pointing_to_its_successor(
    uow: UnitOfWork, journal: Journal, memories: MemoryStorage, superuser: asyncpg.Connection, a: Principal
) -> None:
    old = await remembered(journal, a, importance=4)
    fresh = replace(
        creation(a, "Maya drinks oat milk and tea.", threads=["t"], created_at=old.created_at, importance=4),
        kind=ChangeKind.recreated,
        old_ref=str(old.id),
    )
    fields = {"state": "superseded", "superseded_by": fresh.memory_id}
    gone = change(a, old.id, ChangeKind.superseded, fields=fields, new_ref=str(fresh.memory_id))
    before, after = (await journal.record(a, [gone, fresh])).recorded
    assert (before.memory.state, before.memory.superseded_by) == ("superseded", fresh.memory_id)
    assert (after.memory.state, after.memory.created_at, after.revisions) == ("active", old.created_at, {"t": 1})
    assert (await history(uow, memories, a, old.id))[-1].new_ref == str(fresh.memory_id)
    assert (await history(uow, memories, a, fresh.memory_id))[-1].old_ref == str(old.id)
    states = {row["memory_id"]: row["state"] for row in await superuser.fetch("SELECT * FROM vec_minilm_l6_v2")}
    assert states == {old.id: "superseded", fresh.memory_id: "active"}


# --- what is refused


async def test_a_change_that_no_longer_fits_is_refused_and_leaves_nothing(
    journal: Journal, superuser: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    memory = await remembered(journal, a)
    edit = change(a, memory.id, fields={"importance": 5}, threads=("t",), vector=vector_of("x"))
    refused: list[tuple[Principal, MemoryChange, type[MnemaError]]] = [
        (a, replace(edit, expect_version=2), VersionConflict),
        (a, replace(edit, expect_states=("soft_deleted", "superseded")), WrongState),
        (a, replace(edit, memory_id=new_id()), NotFound),
        (a, change(a, new_id(), ChangeKind.purged), NotFound),
        (a, replace(change(a, memory.id, ChangeKind.purged), expect_version=2), VersionConflict),
        (a, creation(a, memory.text.upper(), threads=["t"]), DuplicateText),
        (b, edit, NotFound),
        (b, change(b, memory.id, ChangeKind.purged), NotFound),
    ]
    tables = ("memories", "history", "change_log", "thread_revision", "events", "vec_minilm_l6_v2")
    before = {table: await all_rows(superuser, table) for table in tables}
    for scope, wrong, error in refused:
        with pytest.raises(error):
            await journal.record(scope, [creation(scope, "Maya plays chess.", threads=["t"]), wrong])
    assert {table: await all_rows(superuser, table) for table in tables} == before


async def test_a_refused_write_leaves_no_gap_in_the_revisions(journal: Journal, a: Principal) -> None:
    memory = await remembered(journal, a, threads=["t"])
    with pytest.raises(VersionConflict):
        await journal.record(a, [change(a, memory.id, fields={"importance": 5}, threads=("t",), expect_version=9)])
    outcome = await journal.record(a, [change(a, memory.id, fields={"importance": 5}, threads=("t",))])
    assert outcome.recorded[0].revisions == {"t": 2}


async def test_the_expected_version_and_state_let_it_pass(journal: Journal, a: Principal) -> None:
    memory = await remembered(journal, a)
    edit = change(a, memory.id, fields={"importance": 5}, expect_version=1, expect_states=("active", "superseded"))
    assert (await journal.record(a, [edit])).recorded[0].memory.version == 2


async def test_a_text_may_return_once_the_other_is_gone(journal: Journal, a: Principal) -> None:
    first = await remembered(journal, a)
    await journal.record(a, [change(a, first.id, ChangeKind.soft_deleted, fields={"state": "soft_deleted"})])
    await remembered(journal, a)
    with pytest.raises(DuplicateText):
        await journal.record(a, [change(a, first.id, ChangeKind.restored, fields={"state": "active"})])


async def test_equal_texts_are_two_memories_when_only_one_is_semantic(
    journal: Journal, a: Principal, b: Principal
) -> None:
    await remembered(journal, a)
    await remembered(journal, a, type=MemoryType.turn)
    await remembered(journal, a, type=MemoryType.turn)
    await remembered(journal, a, user_id="noor")
    await remembered(journal, a, category="profile")
    await remembered(journal, b)


async def test_of_many_in_one_call_each_has_its_own_record(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    await remembered(journal, a, "Anna is known.", user_id="anna")
    made = [
        creation(a, "Anna drinks tea.", user_id="anna", threads=["t"], category="profile"),
        replace(creation(a, "Maya is new.", user_id="maya", threads=["t"], category="goals"), vector=None),
        creation(a, "Noor is new, too.", user_id="noor", threads=["u"], category="events"),
    ]
    outcome = await journal.record(a, made)
    assert [r.revisions for r in outcome.recorded] == [{"t": 1}, {"t": 2}, {"u": 1}]
    rows = await superuser.fetch(
        "SELECT m.id, u.user_id, h.meta->'after'->>'text' AS text, c.category_after AS category,"
        " v.embedding::real[] AS vector FROM memories m JOIN users u USING (tenant_id, user_pk)"
        " JOIN history h ON h.memory_id = m.id::text JOIN change_log c ON c.memory_id = m.id::text"
        " LEFT JOIN vec_minilm_l6_v2 v ON v.memory_id = m.id ORDER BY m.id"
    )
    assert [(r["id"], r["user_id"], r["text"], r["category"]) for r in rows] == [
        (c.memory_id, c.user_id, c.new.text, c.new.category) for c in made
    ]
    assert rows[1]["vector"] is None
    for row, change_ in ((rows[0], made[0]), (rows[2], made[2])):
        assert row["vector"] == pytest.approx(change_.vector.tolist(), abs=1e-3)


async def test_a_user_who_is_gone_when_the_memory_comes_is_contention(
    uow: UnitOfWork, superuser: asyncpg.Connection, a: Principal
) -> None:
    batch = {"history": [], "events": [], "memories": [_row(creation(a))]}
    with pytest.raises(WriteContention):
        await uow.call(a, "SELECT apply_changes_minilm_l6_v2($1, $2, '{}', '{}', '{}', '{}', NULL)", batch)
    assert await all_rows(superuser, "memories") == []


# --- idempotency


def answer(outcome: Outcome, change: MemoryChange) -> dict[str, Any]:
    if outcome.replay is not None:
        return outcome.replay
    last = outcome.recorded[-1]
    return {"id": str(change.memory_id), "revs": last.revisions, "related": last.related}


async def test_many_at_once_with_one_key_make_one_memory_and_equal_answers(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    changes = [creation(a, f"Maya drank {n} cups.", threads=["t"]) for n in range(16)]
    outcomes = await asyncio.gather(
        *(
            journal.record(a, [c], keys=[KeyRecord(KEY, {"id": str(c.memory_id)}, c.user_id, c.memory_id)])
            for c in changes
        )
    )
    answers = [answer(outcome, c) for outcome, c in zip(outcomes, changes, strict=True)]
    assert answers == [answers[0]] * 16
    assert [row["id"] for row in await superuser.fetch("SELECT id FROM memories")] == [UUID(answers[0]["id"])]
    assert await superuser.fetchval("SELECT rev FROM thread_revision") == 1


async def test_another_body_under_the_same_key_is_refused(journal: Journal, a: Principal) -> None:
    await journal.record(a, [creation(a)], keys=[KeyRecord(KEY, {}, "maya")])
    with pytest.raises(IdempotencyMismatch):
        await journal.record(
            a, [creation(a, "Maya plays chess.")], keys=[KeyRecord(replace(KEY, body_hash=b"other"), {}, "maya")]
        )


async def test_a_key_belongs_to_its_route_its_caller_and_its_tenant(
    journal: Journal, a: Principal, b: Principal
) -> None:
    uses = [(a, KEY), (a, replace(KEY, route="POST /turns")), (a, replace(KEY, key="l")), (b, KEY)]
    for n, (scope, key) in enumerate([*uses, (replace(a, key_id=new_id()), KEY)]):
        outcome = await journal.record(
            scope, [creation(scope, f"Maya has {n} cats.")], keys=[KeyRecord(key, {}, "maya")]
        )
        assert outcome.replay is None


async def test_a_write_that_failed_does_not_use_up_its_key(journal: Journal, a: Principal) -> None:
    with pytest.raises(NotFound):
        await journal.record(a, [change(a, new_id(), fields={"importance": 5})], keys=[KeyRecord(KEY, {}, "maya")])
    assert (await journal.record(a, [creation(a)], keys=[KeyRecord(KEY, {}, "maya")])).replay is None
