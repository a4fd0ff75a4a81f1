"""The instructions of a user are found by index, however many memories the user has."""

import asyncpg

from app.domain.memory.instructions import TAG
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.storage.journal import Journal
from tests.storage.building import bind, creation

FOUND = """
SELECT m.id FROM memories m
WHERE m.tenant_id = $1 AND m.user_pk = $2 AND m.state = 'active' AND 'standing-instruction' = ANY (m.tags)
  AND m.category = ANY ($3) ORDER BY m.created_at DESC, m.id DESC LIMIT 50
"""
"""The look into the index, as `standing_instructions` has it."""


async def test_instructions_are_one_look_into_their_index(
    journal: Journal, raw: asyncpg.Connection, superuser: asyncpg.Connection, a: Principal
) -> None:
    turn = {"type": MemoryType.turn, "category": "activity"}
    turns = [creation(a, f"Maya said {number}.", threads=["c1"], **turn) for number in range(250)]
    told = creation(a, "Always answer in German.", threads=["c1"], tags=(TAG,), **turn)
    await journal.record(a, [*turns, told])
    await superuser.execute("ANALYZE memories")
    async with raw.transaction():
        await bind(raw, a.tenant_id)
        user = await raw.fetchval("SELECT user_pk_of($1, 'maya')", a.tenant_id)
        asked = a.tenant_id, user, ["activity"]
        assert [row["id"] for row in await raw.fetch(FOUND, *asked)] == [told.memory_id]
        plan = "\n".join(row[0] for row in await raw.fetch(f"EXPLAIN {FOUND}", *asked))
        body = await raw.fetchval("SELECT prosrc FROM pg_proc WHERE proname = 'standing_instructions'")
    assert "memories_instructions" in plan
    assert "'standing-instruction' = ANY (m.tags)" in body
