"""The summary of a conversation is found by index, however many memories its user has."""

import asyncpg

from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.storage.journal import Journal
from app.storage.statements import load_statements
from tests.storage.building import bind, creation

SUMMARY = load_statements("reflection/transcripts.sql")["summary"].format(columns="m.id", vec="")


async def test_a_summary_is_one_look_into_its_index(
    journal: Journal, raw: asyncpg.Connection, superuser: asyncpg.Connection, a: Principal
) -> None:
    turn = {"type": MemoryType.turn, "category": "activity"}
    turns = [creation(a, f"Maya said {number}.", threads=["c1"], **turn) for number in range(250)]
    summary = creation(a, "Maya counted.", threads=["c1"], **turn | {"type": MemoryType.summary})
    await journal.record(a, [*turns, summary])
    await superuser.execute("ANALYZE memories")
    async with raw.transaction():
        await bind(raw, a.tenant_id)
        asked = a.tenant_id, "maya", "c1"
        assert [row["id"] for row in await raw.fetch(SUMMARY, *asked)] == [summary.memory_id]
        plan = "\n".join(row[0] for row in await raw.fetch(f"EXPLAIN {SUMMARY}", *asked))
    assert "memories_summaries" in plan
