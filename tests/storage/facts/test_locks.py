"""The order of locks: a statement takes its user before its thread, whether a turn states it or not."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import asyncpg

from app.domain.facts.fact import FactOperation, FactStatement
from app.domain.principal import Principal
from app.storage.journal import Journal
from tests.storage.building import Gate, bind, creation

COLORS = FactOperation("list", "favorite_colors", ((1, "red"), (2, "white")))


async def test_a_turn_with_facts_waits_for_its_user_without_holding_its_thread(
    journal: Journal, a: Principal, raw: asyncpg.Connection, superuser: asyncpg.Connection
) -> None:
    new = creation(a, threads=["talk"])
    statement = FactStatement(new.user_id, "talk", "preferences", (COLORS,), datetime.now(UTC))
    await journal.record(a, [], facts=[statement])
    async with raw.transaction():
        await bind(raw, a.tenant_id)
        await raw.fetch("SELECT FROM users WHERE tenant_id = $1 FOR NO KEY UPDATE", a.tenant_id)
        waiting = asyncio.create_task(journal.record(a, [replace(new, facts=(statement,))]))
        await Gate(superuser).waiting(1)
        threads = "SELECT thread_id FROM thread_revision WHERE tenant_id = $1 FOR UPDATE NOWAIT"
        assert [row["thread_id"] for row in await raw.fetch(threads, a.tenant_id)] == ["talk"]
    recorded = await waiting
    assert [stated.action for stated in recorded.facts[0].stated] == [None, None]
