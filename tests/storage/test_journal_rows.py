"""The rows that depend on a memory: its vector and relations follow it, and a purge leaves none of them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.domain.changes import ChangeKind, Edge, Observation
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import Memory, MemoryType
from app.domain.memory.merge_bands import MergeBands
from app.domain.principal import Principal
from app.storage.journal import Journal, KeyRecord
from app.storage.memory.memories import MemoryStorage
from app.storage.recall.delta import DeltaStorage
from app.storage.uow import UnitOfWork
from tests.storage.building import change, creation, remembered, vector_of

SECRET = "zanzibarquux"


async def vector_row(superuser: asyncpg.Connection, memory_id: UUID) -> asyncpg.Record | None:
    """Return a memory's row in the vector table; `place` changes whenever the row is written."""
    return await superuser.fetchrow(
        "SELECT tableoid::text || ctid::text AS place, type, category, state, embedding::text FROM vec_minilm_l6_v2"
        " WHERE memory_id = $1",
        memory_id,
    )


async def edit(journal: Journal, scope: Principal, memory: Memory, vector: Any = None, **fields: Any) -> None:
    await journal.record(scope, [change(scope, memory.id, fields=fields, vector=vector)])


# --- vectors


async def test_a_vector_row_is_made_with_its_memory(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    memory = await remembered(journal, a, type=MemoryType.episodic)
    row = await vector_row(superuser, memory.id)
    assert (row["type"], row["category"], row["state"]) == ("episodic", "preferences", "active")
    stored = [float(x) for x in row["embedding"][1:-1].split(",")]
    assert stored == pytest.approx(vector_of(memory.text).tolist(), abs=1e-3)


async def test_a_vector_row_is_left_alone_by_other_changes(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    memory = await remembered(journal, a)
    before = await vector_row(superuser, memory.id)
    others = {"importance": 5, "pinned": True, "tags": ["x"], "metadata": {"x": 1}, "category": "preferences"}
    for name, value in others.items():
        await edit(journal, a, memory, **{name: value})
        assert (name, await vector_row(superuser, memory.id)) == (name, before)


async def test_a_vector_row_follows_text_category_and_state(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    memory = await remembered(journal, a)
    first = await vector_row(superuser, memory.id)
    await edit(journal, a, memory, category="profile")
    second = await vector_row(superuser, memory.id)
    assert (second["category"], second["embedding"]) == ("profile", first["embedding"])
    await edit(journal, a, memory, state="soft_deleted")
    third = await vector_row(superuser, memory.id)
    assert (third["state"], third["embedding"]) == ("soft_deleted", first["embedding"])
    await edit(journal, a, memory, state="active", text="Maya drinks tea.", vector=vector_of("tea"))
    fourth = await vector_row(superuser, memory.id)
    assert (fourth["category"], fourth["state"]) == ("profile", "active")
    assert fourth["embedding"] != first["embedding"]


async def test_one_call_gives_each_memory_its_own_vector(
    journal: Journal, memories: MemoryStorage, a: Principal
) -> None:
    old = await remembered(journal, a, "Maya has a cat.")
    texts = ["Maya drinks oat milk.", "Maya plays chess."]
    first, second = (creation(a, text) for text in texts)
    unembedded = change(a, old.id, fields={"importance": 5})
    await journal.record(a, [first, unembedded, second])
    for text in [*texts, "Maya has a cat."]:
        found = await memories.find_neighbours(a, "maya", "preferences", "?", vector_of(text), MergeBands())
        assert (found[0].neighbour.text, round(found[0].neighbour.similarity, 2)) == (text, 1.0)


# --- relations


async def edges_in(superuser: asyncpg.Connection) -> set[tuple[UUID, UUID]]:
    rows = await superuser.fetch("SELECT from_id::uuid, to_id::uuid FROM relations")
    return {(row["from_id"], row["to_id"]) for row in rows}


async def events_of(superuser: asyncpg.Connection, memory_id: UUID) -> list[str]:
    rows = await superuser.fetch("SELECT event FROM history WHERE memory_id = $1 ORDER BY ts", str(memory_id))
    return [row["event"] for row in rows]


async def test_relations_are_made_with_the_memory_and_told_in_its_history(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    one, two = await remembered(journal, a, "Maya has a cat."), await remembered(journal, a, "Maya has a dog.")
    new = creation(a)
    ends = [(one, "preferences", 0.75), (two, "profile", 0.5)]
    edges = tuple(Edge(new.memory_id, other.id, category, strength) for other, category, strength in ends)
    assert (await journal.record(a, [replace(new, edges=edges)])).recorded[0].related == 2
    assert await edges_in(superuser) == {(new.memory_id, one.id), (new.memory_id, two.id)}
    assert await events_of(superuser, new.memory_id) == ["ADD", "LINK"]
    link = await superuser.fetchrow("SELECT actor, meta::jsonb->'edges' AS edges FROM history WHERE event = 'LINK'")
    assert link["actor"] == a.actor_name
    for other, category, strength in ends:
        assert f'"{other.id}"' in link["edges"]
        assert f'"category": "{category}"' in link["edges"]
        assert f'"strength": {strength}' in link["edges"]


async def test_a_relation_is_made_once_whatever_its_direction(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    one, two = await remembered(journal, a, "Maya has a cat."), await remembered(journal, a, "Maya has a dog.")
    for from_id, to_id, related in ((one.id, two.id, 1), (one.id, two.id, 0), (two.id, one.id, 0)):
        made = change(a, from_id, fields={"importance": 3}, edges=(Edge(from_id, to_id, "preferences", 0.6),))
        assert (await journal.record(a, [made])).recorded[0].related == related
    assert await edges_in(superuser) == {(one.id, two.id)}
    assert await events_of(superuser, one.id) == ["ADD", "UPDATE", "LINK", "UPDATE"]
    assert await events_of(superuser, two.id) == ["ADD", "UPDATE"]


async def test_a_change_may_bring_the_same_relation_twice(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    one, two = await remembered(journal, a, "Maya has a cat."), await remembered(journal, a, "Maya has a dog.")
    ways = (Edge(one.id, two.id, "preferences", 0.6), Edge(two.id, one.id, "preferences", 0.6))
    await journal.record(a, [change(a, one.id, fields={"importance": 3}, edges=(ways[0], *ways))])
    assert len(await edges_in(superuser)) == 1


async def test_an_incoming_relation_is_made_too(journal: Journal, superuser: asyncpg.Connection, a: Principal) -> None:
    newer = await remembered(journal, a, "Maya has a cat.")
    older = creation(a, created_at=newer.created_at - timedelta(days=1))
    await journal.record(a, [replace(older, edges=(Edge(newer.id, older.memory_id, "preferences", 0.6),))])
    assert await edges_in(superuser) == {(newer.id, older.memory_id)}
    assert await events_of(superuser, older.memory_id) == ["ADD", "LINK"]


# --- purge


async def mentions(superuser: asyncpg.Connection, what: str) -> dict[str, int]:
    """Return in how many rows of each table, partitions included, any column contains a string."""
    tables = await superuser.fetch(
        "SELECT oid::regclass::text AS name FROM pg_class"
        " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
    )
    found = {}
    for table in tables:
        rows = f"SELECT count(*) FROM {table['name']} t WHERE strpos(lower(t::text), lower($1)) > 0"
        if count := await superuser.fetchval(rows, what):
            found[table["name"]] = count
    return found


async def full_life(uow: UnitOfWork, journal: Journal, scope: Principal) -> Memory:
    """Store a memory with the secret in every place that a text can reach."""
    neighbour = await remembered(journal, scope, "Maya has a cat.")
    new = creation(
        scope,
        f"Maya likes {SECRET}.",
        threads=["t"],
        type=MemoryType.procedural,
        category="procedural",
        steps_text=f"1. Buy {SECRET}.",
        tags=(SECRET,),
        metadata={"note": SECRET},
        source={"quote": SECRET},
    )
    new = replace(
        new,
        edges=(Edge(new.memory_id, neighbour.id, "preferences", 0.7),),
        observations=(Observation("hotpath", "create", memory_id=new.memory_id),),
        history_meta={"incoming": SECRET},
    )
    key = IdempotencyKey("POST /memory", "k", b"body")
    await journal.record(
        scope, [new], keys=[KeyRecord(key, {"id": str(new.memory_id), "action": "created"}, new.user_id)]
    )
    told = {"text": f"Now {SECRET}", "importance": 2}
    fields = {"text": f"Maya loves {SECRET}.", "steps_text": f"1. Sell {SECRET}."}
    threads = ("t", "u")
    again = change(scope, new.memory_id, fields=fields, vector=vector_of("x"), threads=threads, delta_meta=told)
    again = replace(again, edges=new.edges)
    memory = (await journal.record(scope, [again])).recorded[0].memory
    async with uow.write(scope) as tx:
        await DeltaStorage().advance_cursor(tx, scope, "t", "planner", 1)
        await tx.execute(
            "INSERT INTO memory_access (tenant_id, memory_id, last_accessed) VALUES ($1, $2, now())",
            scope.tenant_id,
            memory.id,
        )
    return memory


async def test_a_purge_leaves_its_text_nowhere(
    uow: UnitOfWork, journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    memory = await full_life(uow, journal, a)
    assert {"memories", "history", "change_log"} <= set(await mentions(superuser, SECRET))
    told = {"importance": 2}
    outcome = await journal.record(a, [change(a, memory.id, ChangeKind.purged, threads=("t",), delta_meta=told)])
    assert (outcome.recorded[0].memory, outcome.recorded[0].revisions) == (None, {"t": 3})
    assert await mentions(superuser, SECRET) == {}


async def test_a_purge_leaves_the_fact_of_every_change(
    uow: UnitOfWork, journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    memory = await full_life(uow, journal, a)
    await journal.record(a, [change(a, memory.id, ChangeKind.purged, threads=("t",))])
    assert await events_of(superuser, memory.id) == ["ADD", "LINK", "UPDATE", "LINK", "PURGE"]
    left = set(await mentions(superuser, str(memory.id)))
    assert left == {"history", "change_log", "events", "idempotency_keys"}
    logged = await superuser.fetch(
        "SELECT thread_id, rev, event, category_before FROM change_log ORDER BY ts, thread_id"
    )
    assert [tuple(row) for row in logged][-1] == ("t", 3, "deleted", "procedural")


async def test_a_purge_spares_the_neighbours(
    uow: UnitOfWork, journal: Journal, superuser: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    memory = await full_life(uow, journal, a)
    other = await full_life(uow, journal, b)
    await journal.record(a, [change(a, memory.id, ChangeKind.purged)])
    kept = await superuser.fetch("SELECT tenant_id FROM memories")
    assert sorted(str(row["tenant_id"]) for row in kept) == sorted(map(str, [a.tenant_id, b.tenant_id, b.tenant_id]))
    assert await vector_row(superuser, other.id) is not None
    assert len(await edges_in(superuser)) == 1
