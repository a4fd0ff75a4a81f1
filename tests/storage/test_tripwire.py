"""The tripwire: at commit, the database refuses a change of a memory that history does not record."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias
from uuid import UUID

import asyncpg
import pytest

from app.domain.changes import ChangeKind
from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.journal import Journal
from tests.conftest import Database
from tests.storage.building import bind, change, remembered

DENIED = asyncpg.InsufficientPrivilegeError

INSERT = """
INSERT INTO memories (tenant_id, id, user_pk, user_id, type, category, text, text_hash, importance, pinned, tags,
                      state, metadata, version, created_at, updated_at)
SELECT tenant_id, '{id}', user_pk, user_id, 'turn', category, 'unseen', text_hash, 1, false, '{{}}',
       'active', '{{}}', 1, now(), now() FROM memories LIMIT 1
"""
UPDATE = "UPDATE memories SET importance = 5 WHERE id = '{id}'"
DELETE = "DELETE FROM memories WHERE id = '{id}'"
RECORD = """
INSERT INTO history (tenant_id, id, memory_id, event, actor)
VALUES (current_tenant(), gen_random_uuid(), '{id}', 'UPDATE', 'me')
"""

Run: TypeAlias = Callable[..., Awaitable[str | None]]
Stored: TypeAlias = Callable[[], Awaitable[list[asyncpg.Record]]]


@pytest.fixture
async def memory(journal: Journal, a: Principal) -> Memory:
    return await remembered(journal, a)


@pytest.fixture
async def other(journal: Journal, a: Principal) -> Memory:
    return await remembered(journal, a, "Maya plays chess.")


@pytest.fixture
async def run(raw: asyncpg.Connection, a: Principal, memory: Memory) -> Run:
    """Return a function that runs statements about `memory` ({id}) in one transaction of tenant a.

    The function returns the SQLSTATE with which COMMIT failed.
    """

    async def statements(*texts: str, memory_id: UUID = memory.id) -> str | None:
        await raw.execute("BEGIN")
        try:
            await bind(raw, a.tenant_id)
            for text in texts:
                await raw.execute(text.format(id=memory_id))
        except BaseException:
            await raw.execute("ROLLBACK")
            raise
        try:
            await raw.execute("COMMIT")
        except asyncpg.PostgresError as error:
            return str(error.sqlstate)
        return None

    return statements


@pytest.fixture
async def stored(superuser: asyncpg.Connection) -> Stored:
    """Return a function that reads the stored memories, as a role that sees everything."""

    async def rows() -> list[asyncpg.Record]:
        return await superuser.fetch("SELECT id, text, importance, version FROM memories ORDER BY id")

    return rows


async def test_a_raw_change_is_refused_at_commit_and_rolled_back(run: Run, stored: Stored, memory: Memory) -> None:
    before = await stored()
    for statement, about in ((INSERT, new_id()), (UPDATE, memory.id), (DELETE, memory.id)):
        assert (statement, await run(statement, memory_id=about)) == (statement, "MN001")
        assert await stored() == before


async def test_a_change_with_its_history_is_accepted(run: Run, stored: Stored, memory: Memory) -> None:
    for statement, about in ((INSERT, new_id()), (UPDATE, memory.id), (DELETE, memory.id)):
        before = await stored()
        assert (statement, await run(statement, RECORD, memory_id=about)) == (statement, None)
        assert await stored() != before


async def test_the_order_of_change_and_history_does_not_matter(run: Run) -> None:
    assert await run(RECORD, UPDATE) is None


async def test_history_of_an_earlier_transaction_does_not_count(run: Run) -> None:
    assert await run(RECORD) is None
    assert await run(UPDATE) == "MN001"


async def test_history_of_another_memory_does_not_count(run: Run, other: Memory) -> None:
    assert await run(UPDATE, RECORD.replace("{id}", str(other.id))) == "MN001"


async def test_one_silent_change_among_many_refuses_them_all(run: Run, other: Memory, stored: Stored) -> None:
    before = await stored()
    assert await run(UPDATE, RECORD, UPDATE.replace("{id}", str(other.id))) == "MN001"
    assert await stored() == before


FORGED = RECORD.replace("actor)", "actor, meta, ts, stamp)").replace("'me'", "'me', '{{}}', now(), transaction_stamp()")


async def test_history_cannot_be_given_a_transaction(run: Run) -> None:
    for statement in (FORGED, "UPDATE history SET stamp = transaction_stamp()"):
        with pytest.raises(DENIED):
            await run(statement)


async def test_history_cannot_be_rewritten(run: Run) -> None:
    for statement in (
        "DELETE FROM history",
        "TRUNCATE history",
        "UPDATE history SET event = 'ADD'",
        "UPDATE history SET ts = now()",
        "UPDATE history SET actor = 'somebody else'",
        "UPDATE history SET memory_id = '{id}'",
    ):
        with pytest.raises(DENIED):
            await run(statement)


async def test_the_server_cannot_disarm_it(run: Run) -> None:
    for statement in (
        "ALTER TABLE memories DISABLE TRIGGER memories_tripwire",
        "ALTER TABLE memories DISABLE TRIGGER ALL",
        "DROP TRIGGER memories_tripwire ON memories",
        "SET LOCAL session_replication_role = replica",
        "ALTER TABLE memories NO FORCE ROW LEVEL SECURITY",
        "CREATE TEMPORARY TABLE history (LIKE history)",
        "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "SET LOCAL ROLE mnema_owner",
    ):
        with pytest.raises(DENIED):
            await run(statement)


async def test_a_temporary_table_called_history_does_not_count(
    run: Run, raw: asyncpg.Connection, superuser: asyncpg.Connection, database: Database
) -> None:
    await superuser.execute(f"GRANT TEMPORARY ON DATABASE {database.name} TO mnema_app")
    await raw.execute("CREATE TEMPORARY TABLE history (LIKE public.history)")
    forged = RECORD.replace("actor)", "actor, meta, ts, stamp)").replace(
        "'me'", "'me', '{{}}', now(), transaction_stamp()"
    )
    assert await run(UPDATE, forged) == "MN001"


async def test_checking_early_refuses_early(run: Run) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await run(UPDATE, "SET CONSTRAINTS ALL IMMEDIATE")
    assert refused.value.sqlstate == "MN001"


async def test_leaving_the_tenant_before_commit_does_not_help(run: Run) -> None:
    assert await run(UPDATE, RECORD, "SELECT set_config('app.tenant_id', '', true)") == "MN001"


async def test_a_change_taken_back_to_a_savepoint_needs_no_history(run: Run, stored: Stored) -> None:
    before = await stored()
    assert await run("SAVEPOINT s", UPDATE, "ROLLBACK TO s") is None
    assert await stored() == before


async def test_history_taken_back_to_a_savepoint_does_not_count(run: Run, stored: Stored) -> None:
    before = await stored()
    assert await run(UPDATE, "SAVEPOINT s", RECORD, "ROLLBACK TO s") == "MN001"
    assert await stored() == before


async def test_a_change_and_its_history_may_be_in_different_savepoints(run: Run) -> None:
    assert await run("SAVEPOINT s", UPDATE, "RELEASE s", "SAVEPOINT t", RECORD, "RELEASE t") is None


async def test_releasing_a_savepoint_does_not_hide_a_change(run: Run) -> None:
    assert await run("SAVEPOINT s", UPDATE, "RELEASE s") == "MN001"


async def test_without_a_tenant_nothing_is_touched(raw: asyncpg.Connection, memory: Memory, stored: Stored) -> None:
    before = await stored()
    assert await raw.execute("UPDATE memories SET importance = 5") == "UPDATE 0"
    assert await raw.execute("DELETE FROM memories") == "DELETE 0"
    assert await stored() == before


async def test_every_kind_of_change_passes_through_the_journal(journal: Journal, a: Principal, memory: Memory) -> None:
    for kind, state in (
        (ChangeKind.updated, "active"),
        (ChangeKind.soft_deleted, "soft_deleted"),
        (ChangeKind.restored, "active"),
        (ChangeKind.superseded, "superseded"),
        (ChangeKind.purged, None),
    ):
        fields = {"state": state} if state else {}
        outcome = await journal.record(a, [change(a, memory.id, kind, fields=fields)])
        after = outcome.recorded[0].memory
        assert (after.state if after else None) == state
