"""Concurrent writers: revision order is commit order, there is no deadlock, and only one of two rivals wins."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.domain.changes import ChangeKind, Edge, MemoryChange
from app.domain.errors import DuplicateText, NotFound
from app.domain.idempotency import IdempotencyKey
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.storage.journal import Journal, KeyRecord
from app.storage.uow import UnitOfWork
from tests.conftest import Database
from tests.storage.building import Gate, change, creation, remembered, slow

KEY = IdempotencyKey("POST /memory", "k", b"body")


async def write_many(journal: Journal, scope: Principal, writer: int, count: int) -> list[int]:
    """Store memories; return the revisions that this writer got in thread t."""
    found = []
    for n in range(count):
        outcome = await journal.record(scope, [creation(scope, f"Writer {writer} wrote {n}.", threads=["t"])])
        found.append(outcome.recorded[0].revisions["t"])
    return found


async def visible(superuser: asyncpg.Connection, thread: str = "t") -> list[int]:
    rows = await superuser.fetch("SELECT rev FROM change_log WHERE thread_id = $1 ORDER BY rev", thread)
    return [row["rev"] for row in rows]


@pytest.mark.long
async def test_writers_of_one_thread_get_each_revision_once_and_readers_never_see_a_gap(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    writing = asyncio.gather(*(write_many(journal, a, writer, 10) for writer in range(10)))
    looks: list[list[int]] = []
    while not writing.done():
        looks.append(await visible(superuser))
    given = await writing
    assert sorted(rev for revisions in given for rev in revisions) == list(range(1, 101))
    assert all(revisions == sorted(revisions) for revisions in given)
    assert [look for look in looks if look != list(range(1, len(look) + 1))] == []
    assert len({len(look) for look in looks}) > 2  # the reader looked during the writes


async def test_a_later_writer_waits_for_the_commit_of_the_earlier_one(
    journal: Journal, superuser: asyncpg.Connection, gate: Gate, a: Principal
) -> None:
    await remembered(journal, a, "Maya is known.")  # later writes need not wait for the user's row
    first = asyncio.create_task(journal.record(slow(a), [creation(slow(a), "First.", threads=["t"])]))
    await gate.waiting(1)
    second = asyncio.create_task(journal.record(a, [creation(a, "Second.", threads=["t"])]))
    await gate.waiting(2)
    assert await visible(superuser) == []
    await gate.open()
    assert (await first).recorded[0].revisions == {"t": 1}
    assert (await second).recorded[0].revisions == {"t": 2}


async def test_a_writer_of_another_thread_does_not_wait(journal: Journal, gate: Gate, a: Principal) -> None:
    await remembered(journal, a, "Maya is known.")  # later writes need not wait for the user's row
    first = asyncio.create_task(journal.record(slow(a), [creation(slow(a), "First.", threads=["t"])]))
    await gate.waiting(1)
    outcome = await journal.record(a, [creation(a, "Second.", threads=["u"])])
    assert outcome.recorded[0].revisions == {"u": 1}
    assert not first.done()
    await gate.open()
    await first


async def test_a_writer_that_dies_at_its_commit_leaves_its_revision_to_the_next(
    journal: Journal, superuser: asyncpg.Connection, gate: Gate, a: Principal
) -> None:
    await remembered(journal, a, "Maya is known.")  # later writes need not wait for the user's row
    first = asyncio.create_task(journal.record(slow(a), [creation(slow(a), "First.", threads=["t"])]))
    [pid] = await gate.waiting(1)
    second = asyncio.create_task(journal.record(a, [creation(a, "Second.", threads=["t"])]))
    await gate.waiting(2)
    await superuser.execute("SELECT pg_terminate_backend($1)", pid)
    assert (await second).recorded[0].revisions == {"t": 1}
    assert [type(e).__name__ for e in await asyncio.gather(first, return_exceptions=True)] == ["DatabaseUnavailable"]
    assert await visible(superuser) == [1]


def across(scope: Principal, order: Sequence[str], n: int) -> list[Any]:
    """Return a change in two threads and one change in each, in that order."""
    both = creation(scope, f"Both {n} {order}.", threads=order)
    return [both, *(creation(scope, f"{thread} {n} {order}.", threads=[thread]) for thread in order)]


@pytest.mark.long
async def test_writers_across_threads_in_opposite_order_never_deadlock(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    pairs = [order for n in range(20) for order in ((n, "xyz"), (n, "zyx"))]
    await asyncio.gather(*(journal.record(a, across(a, list(order), n)) for n, order in pairs))
    for thread in "xyz":
        assert await visible(superuser, thread) == list(range(1, 81))
    assert await superuser.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


async def test_a_circle_of_new_users_is_broken_cleanly(
    journal: Journal, superuser: asyncpg.Connection, database: Database, a: Principal
) -> None:
    await superuser.execute(f"ALTER DATABASE {database.name} SET deadlock_timeout = '20ms'")
    users = [f"user {n}" for n in range(30)]
    batches = [[creation(a, f"Note {n}.", user_id=user) for user in users[:: 1 - 2 * (n % 2)]] for n in range(4)]
    outcomes = await asyncio.gather(*(journal.record(a, batch) for batch in batches), return_exceptions=True)
    kinds = [type(outcome).__name__ for outcome in outcomes]
    assert set(kinds) <= {"Outcome", "WriteContention"}
    assert await superuser.fetchval("SELECT count(*) FROM memories") == 30 * kinds.count("Outcome") > 0


async def test_two_writers_of_one_version_do_not_both_win(journal: Journal, a: Principal) -> None:
    memory = await remembered(journal, a)
    edits = [change(a, memory.id, fields={"importance": 1 + n % 5}, expect_version=1) for n in range(10)]
    outcomes = await asyncio.gather(*(journal.record(a, [edit]) for edit in edits), return_exceptions=True)
    assert sorted(type(o).__name__ for o in outcomes) == ["Outcome", *["VersionConflict"] * 9]


async def test_equal_texts_at_once_make_one_memory(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    outcomes = await asyncio.gather(*(journal.record(a, [creation(a)]) for _ in range(10)), return_exceptions=True)
    assert sorted(type(o).__name__ for o in outcomes) == [*["DuplicateText"] * 9, "Outcome"]
    assert await superuser.fetchval("SELECT count(*) FROM memories") == 1


async def test_whoever_waited_for_an_equal_text_learns_of_it(journal: Journal, gate: Gate, a: Principal) -> None:
    await remembered(journal, a, "Maya is known.")  # later writes need not wait for the user's row
    first = asyncio.create_task(journal.record(slow(a), [creation(slow(a))]))
    await gate.waiting(1)
    second = asyncio.create_task(journal.record(a, [creation(a)]))
    await gate.waiting(2)
    await gate.open()
    await first
    with pytest.raises(DuplicateText):
        await second


async def test_whoever_waited_for_a_purge_finds_nothing(journal: Journal, gate: Gate, a: Principal) -> None:
    memory = await remembered(journal, a)
    first = asyncio.create_task(journal.record(slow(a), [change(slow(a), memory.id, ChangeKind.purged)]))
    await gate.waiting(1)
    second = asyncio.create_task(journal.record(a, [change(a, memory.id, fields={"importance": 5})]))
    await gate.waiting(2)
    await gate.open()
    await first
    with pytest.raises(NotFound):
        await second


async def test_a_retry_waits_for_the_first_try_and_repeats_its_answer(
    journal: Journal, gate: Gate, a: Principal
) -> None:
    new = creation(slow(a), threads=["t"])
    first = asyncio.create_task(
        journal.record(slow(a), [new], keys=[KeyRecord(KEY, {"id": "1"}, "maya", new.memory_id)])
    )
    await gate.waiting(1)
    retry = asyncio.create_task(
        journal.record(a, [creation(a, threads=["t"])], keys=[KeyRecord(KEY, {"id": "2"}, "maya")])
    )
    await gate.waiting(2)
    await gate.open()
    await first
    assert (await retry).replay == {"id": "1", "revs": {"t": 1}, "related": 0}


async def test_a_retry_of_a_write_that_died_does_the_work(
    journal: Journal, superuser: asyncpg.Connection, gate: Gate, a: Principal
) -> None:
    first = asyncio.create_task(journal.record(slow(a), [creation(slow(a))], keys=[KeyRecord(KEY, {}, "maya")]))
    [pid] = await gate.waiting(1)
    retry = asyncio.create_task(journal.record(a, [creation(a)], keys=[KeyRecord(KEY, {}, "maya")]))
    await gate.waiting(2)
    await superuser.execute("SELECT pg_terminate_backend($1)", pid)
    assert (await retry).replay is None
    await asyncio.gather(first, return_exceptions=True)
    assert await superuser.fetchval("SELECT count(*) FROM memories") == 1


async def test_opposite_relations_at_once_make_one(
    journal: Journal, superuser: asyncpg.Connection, gate: Gate, a: Principal
) -> None:
    one, two = await remembered(journal, a, "Maya has a cat."), await remembered(journal, a, "Maya has a dog.")
    there, back = Edge(one.id, two.id, "preferences", 0.6), Edge(two.id, one.id, "preferences", 0.6)
    first = asyncio.create_task(
        journal.record(slow(a), [change(slow(a), one.id, fields={"importance": 3}, edges=(there,))])
    )
    await gate.waiting(1)
    second = asyncio.create_task(journal.record(a, [change(a, two.id, fields={"importance": 3}, edges=(back,))]))
    await asyncio.wait([second], timeout=0.1)  # it may or may not wait for the first
    await gate.open()
    await asyncio.gather(first, second)
    assert await superuser.fetchval("SELECT count(*) FROM relations") == 1


async def test_a_cancelled_write_leaves_nothing_and_frees_its_connection(
    journal: Journal, uow: UnitOfWork, superuser: asyncpg.Connection, gate: Gate, a: Principal
) -> None:
    first = asyncio.create_task(journal.record(slow(a), [creation(slow(a), threads=["t"])]))
    await gate.waiting(1)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert first.cancelled()
    assert await superuser.fetchval("SELECT count(*) FROM memories") == 0
    outcomes = await asyncio.gather(*(journal.record(a, [creation(a, f"{n}", threads=["t"])]) for n in range(20)))
    assert len(outcomes) == 20


def related(scope: Principal, other: UUID, changed: UUID | None = None) -> MemoryChange:
    """Return a new memory that is related to `other`, or a change of `changed` that relates it."""
    if changed is not None:
        edges = (Edge(changed, other, "preferences", 0.6),)
        return change(scope, changed, fields={"importance": 3}, edges=edges)
    new: MemoryChange = creation(scope, f"Maya also has a dog, says {scope.actor_name}.", threads=["t"])
    return replace(new, edges=(Edge(new.memory_id, other, "preferences", 0.6),))


@pytest.mark.parametrize("created", [True, False], ids=["created", "updated"])
async def test_a_memory_purged_before_the_write_is_related_to_nothing(
    journal: Journal, superuser: asyncpg.Connection, a: Principal, created: bool
) -> None:
    gone, kept = await remembered(journal, a, "Maya has a cat."), await remembered(journal, a, "Maya has a canary.")
    await journal.record(a, [change(a, gone.id, ChangeKind.purged)])
    write = related(a, gone.id, None if created else kept.id)
    if created:
        with pytest.raises(WriteContention):  # the use-case looks for neighbours again
            await journal.record(a, [write])
    else:
        assert (await journal.record(a, [write])).recorded[0].related == 0
    assert await superuser.fetchval("SELECT count(*) FROM relations") == 0
    assert await superuser.fetchval("SELECT count(*) FROM history WHERE event = 'LINK'") == 0


@pytest.mark.parametrize("created", [True, False], ids=["created", "updated"])
@pytest.mark.parametrize("purge_first", [True, False], ids=["purge first", "write first"])
async def test_a_purge_and_a_relation_at_once_leave_none(
    journal: Journal, superuser: asyncpg.Connection, gate: Gate, a: Principal, created: bool, purge_first: bool
) -> None:
    gone, kept = await remembered(journal, a, "Maya has a cat."), await remembered(journal, a, "Maya has a canary.")

    def both(scope: Principal, purge: bool) -> MemoryChange:
        return change(scope, gone.id, ChangeKind.purged) if purge else related(scope, gone.id, at)

    at = None if created else kept.id
    first = asyncio.create_task(journal.record(slow(a), [both(slow(a), purge_first)]))
    await gate.waiting(1)
    second = asyncio.create_task(journal.record(a, [both(a, not purge_first)]))
    await gate.waiting(2)
    await gate.open()
    outcomes = await asyncio.gather(first, second, return_exceptions=True)
    lost = ["WriteContention"] if created and purge_first else ["Outcome"]
    assert [type(outcome).__name__ for outcome in outcomes] == ["Outcome", *lost]
    assert await superuser.fetchval("SELECT count(*) FROM relations") == 0


@pytest.mark.long
async def test_purges_of_one_user_with_keys_at_once_never_deadlock(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    stored = [await remembered(journal, a, f"Maya has cat {n}.") for n in range(12)]
    keys = [KeyRecord(IdempotencyKey("DELETE", str(one.id), b"body"), {}, "maya", one.id) for one in stored]
    writes = [
        journal.record(a, [change(a, one.id, ChangeKind.purged)], keys=[key])
        for one, key in zip(stored, keys, strict=True)
    ]
    await asyncio.gather(*writes, *(journal.record(a, [creation(a, f"Dog {n}.", threads=["t"])]) for n in range(12)))
    assert await superuser.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0
