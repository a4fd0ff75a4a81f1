"""The turns behind a turn are found by index, however long their conversation is."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import asyncpg

from app.domain.changes import MemoryChange
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.storage.journal import Journal
from app.storage.statements import load_statements
from tests.storage.building import bind, creation

SQL = {name: text.format(columns="m.*") for name, text in load_statements("recall/threads.sql").items()}
COUNT = 400
NEXT = 4
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def said(principal: Principal, number: int, role: str = "user", seq: int | None = None) -> MemoryChange:
    """Return a turn of one conversation, a minute later than the one before it."""
    return creation(
        principal,
        f"Maya said {number}.",
        threads=["c1"],
        type=MemoryType.turn,
        category="activity",
        thread_id="c1",
        seq=seq,
        role=role,
        created_at=BEGAN + timedelta(minutes=number),
    )


async def test_the_turns_behind_a_turn_are_few_looks_into_their_index(
    journal: Journal, raw: asyncpg.Connection, superuser: asyncpg.Connection, a: Principal
) -> None:
    turns = [said(a, number, role=("user", "assistant")[number % 2]) for number in range(COUNT)]
    await journal.record(a, turns)
    await superuser.execute("VACUUM (ANALYZE) memories")
    middle = turns[COUNT // 2]
    place = 2**63 - 1, BEGAN + timedelta(minutes=COUNT // 2), middle.memory_id
    async with raw.transaction():
        await bind(raw, a.tenant_id)
        asked = a.tenant_id, [middle.memory_id], None, NEXT
        assert [row["text"] for row in await raw.fetch(SQL["next_own"], *asked)] == [f"Maya said {COUNT // 2 + 2}."]
        assert await most_rows(raw, SQL["next_own"], *asked) <= 2 * NEXT
        listed = a.tenant_id, "c1", "maya", None, *place, NEXT
        assert (await raw.fetch(SQL["turns"], *listed))[0]["text"] == f"Maya said {COUNT // 2 + 1}."
        assert await most_rows(raw, SQL["turns"], *listed) <= 2 * NEXT


async def test_the_next_message_may_have_the_same_seq(journal: Journal, raw: asyncpg.Connection, a: Principal) -> None:
    turns = [said(a, number, seq=seq) for number, seq in enumerate((7, 7, 9, None, None))]
    await journal.record(a, turns)
    ids = [turn.memory_id for turn in turns]
    async with raw.transaction():
        await bind(raw, a.tenant_id)
        found = await raw.fetch(SQL["next_own"], a.tenant_id, ids, None, 1)
    assert {row["after_id"]: row["id"] for row in found} == dict(pairwise(ids))


async def most_rows(connection: asyncpg.Connection, statement: str, *arguments: object) -> int:
    """Return the most rows that a part of a statement reads, under the plan for any arguments."""
    await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    found = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments)
    parts = [json.loads(found)[0]["Plan"]]
    for part in parts:
        parts += part.get("Plans", [])
    return max(int(part["Actual Rows"] + part.get("Rows Removed by Filter", 0)) for part in parts)
