"""The functions that read across tenants: what they return, and what stays hidden."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.domain.changes import ChangeKind
from app.domain.filters import Filters
from app.domain.principal import Principal
from app.domain.where.parsing import parse_where
from app.storage.journal import Journal
from app.storage.tenancy.tenants import TenantStorage, hash_key
from app.storage.uow import UnitOfWork
from tests.storage.building import bind, change, new_tenant, remembered

EVERYTHING = ["preferences", "tasks"]


async def lexical(
    uow: UnitOfWork,
    scope: Principal,
    query: str = "milk",
    *,
    user: str | None = None,
    categories: list[str] | None = EVERYTHING,
    filters: dict[str, Any] | None = None,
    limit: int = 10,
) -> set[UUID]:
    async with uow.read(scope) as tx:
        pk = await tx.fetchval("SELECT user_pk_of($1, $2)", scope.tenant_id, user) if user else None
        rows = await tx.fetch(
            "SELECT memory_id FROM search_lexical($1, $2, $3, $4, $5)", pk, query, categories, filters, limit
        )
    return {row["memory_id"] for row in rows}


async def test_words_find_a_tenants_own_memories(uow: UnitOfWork, journal: Journal, a: Principal, b: Principal) -> None:
    ours, theirs = await remembered(journal, a), await remembered(journal, b)
    await remembered(journal, a, "Maya plays chess.")
    assert await lexical(uow, a) == {ours.id}
    assert await lexical(uow, b) == {theirs.id}


async def test_any_word_is_enough_and_stems_count(uow: UnitOfWork, journal: Journal, a: Principal) -> None:
    memory = await remembered(journal, a)
    assert await lexical(uow, a, "who is drinking coffee?") == {memory.id}
    assert await lexical(uow, a, "coffee") == set()


async def test_no_query_is_an_error(uow: UnitOfWork, journal: Journal, a: Principal) -> None:
    memory = await remembered(journal, a)
    for query in ("", "   ", "the and of", "'", "\\", "\\' | 'b", "!!", "milk & !maya", "':*", "é" * 3000, "a " * 5000):
        assert await lexical(uow, a, query) <= {memory.id}


async def test_the_marks_of_tenant_and_user_cannot_be_searched_for(
    uow: UnitOfWork, journal: Journal, a: Principal, b: Principal
) -> None:
    await remembered(journal, a)
    await remembered(journal, b)
    for mark in (f"_t{a.tenant_id.hex}", f"_t{b.tenant_id.hex}", "_u1", "_u2", f"_t{b.tenant_id.hex} _u2"):
        assert await lexical(uow, a, mark) == set()


async def test_a_user_finds_only_what_is_theirs(uow: UnitOfWork, journal: Journal, a: Principal) -> None:
    maya = await remembered(journal, a)
    noor = await remembered(journal, a, user_id="noor")
    assert await lexical(uow, a, user="maya") == {maya.id}
    assert await lexical(uow, a, user="noor") == {noor.id}
    assert await lexical(uow, a) == {maya.id, noor.id}


async def test_another_tenants_user_key_finds_nothing(
    uow: UnitOfWork, journal: Journal, superuser: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    await remembered(journal, a)
    await remembered(journal, b)
    theirs = await superuser.fetchval("SELECT user_pk FROM users WHERE tenant_id = $1", b.tenant_id)
    async with uow.read(a) as tx:
        assert await tx.fetch("SELECT * FROM search_lexical($1, 'milk', $2, NULL, 10)", theirs, EVERYTHING) == []


async def test_only_the_named_categories_are_searched(uow: UnitOfWork, journal: Journal, a: Principal) -> None:
    likes = await remembered(journal, a)
    todo = await remembered(journal, a, "Buy oat milk.", category="tasks")
    assert await lexical(uow, a, categories=["tasks"]) == {todo.id}
    assert await lexical(uow, a, categories=["preferences"]) == {likes.id}
    assert await lexical(uow, a, categories=[]) == set()
    assert await lexical(uow, a, categories=None) == set()


NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
PLAIN: dict[str, Any] = {"type": "episodic", "created_at": NOON}
FULL: dict[str, Any] = PLAIN | {
    "agent_id": "planner",
    "run_id": "r",
    "actor_id": "maya",
    "role": "user",
    "pinned": True,
    "importance": 4,
    "tags": ("food", "home"),
    "created_at": NOON + timedelta(hours=1),
}


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "both"),
    ({"agent_id": None}, "both"),
    ({"agent_id": "planner"}, "full"),
    ({"run_id": "r"}, "full"),
    ({"actor_id": "maya"}, "full"),
    ({"role": "user"}, "full"),
    ({"thread_id": "t"}, "full"),
    ({"type": "episodic"}, "both"),
    ({"type": "semantic"}, "none"),
    ({**Filters(tag="home").row_conditions()}, "full"),
    ({**Filters(tag="house").row_conditions()}, "none"),
    ({"pinned": True}, "full"),
    ({"pinned": False}, "plain"),
    ({"importance_min": 3}, "full"),
    ({"importance_max": 3}, "plain"),
    ({"updated_after": (NOON + timedelta(hours=1)).isoformat()}, "full"),
    ({"updated_before": (NOON + timedelta(hours=1)).isoformat()}, "plain"),
    ({"agent_id": "planner", "pinned": False}, "none"),
    ({"agent_id": "plan"}, "none"),
]


async def test_filters_are_applied_inside(uow: UnitOfWork, journal: Journal, a: Principal) -> None:
    plain = await remembered(journal, a, **PLAIN)
    full = await remembered(journal, a, threads=["t"], **FULL)
    sets = {"both": {plain.id, full.id}, "full": {full.id}, "plain": {plain.id}, "none": set()}
    for filters, finds in FILTERS:
        assert (filters, await lexical(uow, a, filters=filters)) == (filters, sets[finds])


async def test_what_is_deleted_or_superseded_is_not_found(uow: UnitOfWork, journal: Journal, a: Principal) -> None:
    for state in ("soft_deleted", "superseded"):
        memory = await remembered(journal, a)
        await journal.record(a, [change(a, memory.id, ChangeKind.soft_deleted, fields={"state": state})])
    assert await lexical(uow, a) == set()


async def test_the_limit_holds(uow: UnitOfWork, journal: Journal, a: Principal) -> None:
    for n in range(4):
        await remembered(journal, a, f"Maya drank milk {n} times.")
    assert len(await lexical(uow, a, limit=3)) == 3


async def test_without_a_tenant_words_find_nothing(journal: Journal, raw: asyncpg.Connection, a: Principal) -> None:
    await remembered(journal, a)
    search = "SELECT * FROM search_lexical(NULL, 'milk', $1, NULL, 10)"
    assert await raw.fetch(search, EVERYTHING) == []
    async with raw.transaction():
        await bind(raw, a.tenant_id)
        assert len(await raw.fetch(search, EVERYTHING)) == 1
    assert await raw.fetch(search, EVERYTHING) == []


async def test_listed_words_are_a_tenants_own(
    uow: UnitOfWork,
    journal: Journal,
    raw: asyncpg.Connection,
    superuser: asyncpg.Connection,
    a: Principal,
    b: Principal,
) -> None:
    ours, theirs = await remembered(journal, a), await remembered(journal, b)
    pk = await superuser.fetchval("SELECT user_pk FROM users WHERE tenant_id = $1", b.tenant_id)
    listed = "SELECT * FROM list_worded($1, $2, NULL, NULL, $3, 10)"
    plain = {"state": "active"}
    async with uow.read(a) as tx:
        for query in ("milk", "-coffee", f"milk or _t{b.tenant_id.hex}", f"-nothing _t{b.tenant_id.hex}"):
            rows = await tx.fetch(listed, None, query, plain)
            assert {row["memory_id"] for row in rows} <= {ours.id}
        assert await tx.fetch(listed, pk, "milk", plain) == []
        direct = "SELECT * FROM list_memories($1, NULL, NULL, NULL, NULL, $2, 10)"
        assert [row["memory_id"] for row in await tx.fetch(direct, a.tenant_id, plain)] == [ours.id]
        assert await tx.fetch(direct, b.tenant_id, plain) == []  # no definer: row-level security holds
    async with uow.read(b) as tx:
        assert [row["memory_id"] for row in await tx.fetch(listed, None, "milk", plain)] == [theirs.id]
    assert await raw.fetch(listed, None, "milk", '{"state": "active"}') == []


async def test_labels_find_a_tenants_own_memories(
    uow: UnitOfWork, journal: Journal, raw: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    ours, theirs = await remembered(journal, a, **FULL), await remembered(journal, b, **FULL)
    await remembered(journal, a, **PLAIN)
    home = {**Filters(tag="home").row_conditions()}
    statement = "SELECT labelled_memories(NULL, $1, $2, 10)"
    for scope, memory in ((a, ours), (b, theirs)):
        async with uow.read(scope) as tx:
            assert await tx.fetchval(statement, EVERYTHING, home) == [memory.id]
            for escape in (f'true) || ($."{b.tenant_id}" ? (true', f'1 == 1) || exists($."{a.tenant_id}"'):
                with suppress(asyncpg.PostgresError):
                    found = await tx.fetchval(statement, EVERYTHING, home | {"where_labels": escape})
                    assert set(found) <= {memory.id}
    assert await raw.fetchval(statement, EVERYTHING, json.dumps(home)) == []


async def test_a_list_by_an_index_is_a_tenants_own(
    uow: UnitOfWork, journal: Journal, raw: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    fields: dict[str, Any] = FULL | {"metadata": {"score": 0.9}}
    ours, theirs = [await remembered(journal, tenant, **fields) for tenant in (a, b)]
    home = {**Filters(tag="home").row_conditions()}
    high = {**Filters(where=parse_where({"metadata.score": {"gt": 0.5}})).row_conditions()}
    statement = "SELECT list_indexed($1, NULL, NULL, NULL, $2, $3, 10, 100)"
    plain: dict[str, Any] = {"state": "active"}
    for scope, memory in ((a, ours), (b, theirs)):
        async with uow.read(scope) as tx:
            assert await tx.fetchval(statement, "labels", home, plain) == [memory.id]
            assert await tx.fetchval(statement, "numbers", high, plain) == [memory.id]
            assert await tx.fetchval(statement, "state", home, {"state": "superseded"}) is None
            for escape in (f'true) || ($."{b.tenant_id}" ? (true', f'1 == 1) || exists($."{a.tenant_id}"'):
                with suppress(asyncpg.PostgresError):
                    found = await tx.fetchval(statement, "labels", home | {"where_labels": escape}, plain)
                    assert set(found or ()) <= {memory.id}
            injected = plain | {
                "equal": {"role = 'x' OR true --": ["x"]},
                "tags": ["') OR (true"],
                "sort": "') OR (true",
            }
            with suppress(asyncpg.PostgresError):
                assert set(await tx.fetchval(statement, "labels", home, injected) or ()) <= {memory.id}
    assert not await raw.fetchval(statement, "labels", json.dumps(home), json.dumps(plain))


async def test_numbers_find_a_tenants_own_memories(
    uow: UnitOfWork, journal: Journal, raw: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    numbered: dict[str, Any] = {"metadata": {"score": 0.9}}
    ours, theirs = [await remembered(journal, tenant, **numbered) for tenant in (a, b)]
    await remembered(journal, a, "Maya drank tea.", metadata={"score": 0.2})
    high = {**Filters(where=parse_where({"metadata.score": {"gt": 0.5}})).row_conditions()}
    statement = "SELECT numbered_memories(NULL, $1, $2, $3)"
    for scope, memory in ((a, ours), (b, theirs)):
        async with uow.read(scope) as tx:
            assert await tx.fetchval(statement, EVERYTHING, high, 1) == [memory.id]
            assert await tx.fetchval(statement, EVERYTHING, high, 0) is None
    assert await raw.fetchval(statement, EVERYTHING, json.dumps(high), 1) == []


async def test_a_path_that_finds_many_is_left_to_others(uow: UnitOfWork, journal: Journal, a: Principal) -> None:
    for n in range(3):
        await remembered(journal, a, f"Maya drank milk {n} times.", tags=("home",))
    home = {**Filters(tag="home").row_conditions()}
    async with uow.read(a) as tx:
        assert await tx.fetchval("SELECT labelled_memories(NULL, $1, $2, 2)", EVERYTHING, home) is None
        assert len(await tx.fetchval("SELECT labelled_memories(NULL, $1, $2, 3)", EVERYTHING, home)) == 3


async def test_a_key_is_known_without_a_tenant(uow: UnitOfWork, a: Principal, b: Principal) -> None:
    storage = TenantStorage(uow)
    key, plain = await storage.create_key(a, "mine", ["query"], ["planner"], None)
    owner = await storage.find_key_owner(plain)
    assert owner is not None
    assert (owner.tenant_id, owner.key_id, owner.agents, owner.scopes) == (a.tenant_id, key.id, ("planner",), {"query"})
    assert await storage.find_key_owner(plain + "x") is None
    assert await storage.find_key_owner("\ud800") is None


async def test_a_revoked_or_expired_key_is_not_known(uow: UnitOfWork, a: Principal, b: Principal) -> None:
    storage = TenantStorage(uow)
    key, plain = await storage.create_key(a, "mine", ["query"], None, None)
    _, expired = await storage.create_key(a, "old", ["query"], None, datetime.now(UTC) - timedelta(seconds=1))
    assert await storage.find_key_owner(expired) is None
    assert (await storage.revoke_key(b, key.id)).was_valid is False
    assert await storage.find_key_owner(plain) is not None
    assert (await storage.revoke_key(a, key.id)).was_valid is True
    assert await storage.find_key_owner(plain) is None


async def test_all_tenants_are_listed_without_a_tenant(uow: UnitOfWork, a: Principal, b: Principal) -> None:
    c = await new_tenant(uow)
    assert {tenant.id for tenant in await TenantStorage(uow).list_tenants()} == {a.tenant_id, b.tenant_id, c.tenant_id}


async def test_the_hash_of_a_key_is_unreadable(raw: asyncpg.Connection, a: Principal) -> None:
    for column in ("key_hash", "*", "1 FROM api_keys WHERE key_hash IS NOT NULL --"):
        transaction = raw.transaction()
        await transaction.start()
        await bind(raw, a.tenant_id)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await raw.fetch(f"SELECT {column} FROM api_keys")
        await transaction.rollback()


async def test_the_key_itself_is_nowhere(uow: UnitOfWork, superuser: asyncpg.Connection, a: Principal) -> None:
    _, plain = await TenantStorage(uow).create_key(a, "mine", ["query"], None, None)
    rows = await superuser.fetch("SELECT key_hash, to_jsonb(k)::text AS row FROM api_keys k WHERE name = 'mine'")
    assert [row["key_hash"] for row in rows] == [hash_key(plain)]
    assert plain not in rows[0]["row"]


async def test_two_keys_cannot_have_one_hash(superuser: asyncpg.Connection, a: Principal, b: Principal) -> None:
    key = """INSERT INTO api_keys (tenant_id, id, name, prefix, key_hash, scopes)
             VALUES ($1, gen_random_uuid(), 'k', 'p', $2, '{}')"""
    await superuser.execute(key, a.tenant_id, b"hash")
    with pytest.raises(asyncpg.UniqueViolationError, match="api_keys_hash"):
        await superuser.execute(key, b.tenant_id, b"hash")
