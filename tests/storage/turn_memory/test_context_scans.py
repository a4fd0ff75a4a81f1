"""The rows that a view reads in a conversation of 2,000 turns: those that it shows, not the conversation."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.domain.principal import Principal
from tests.storage.building import bind

TURNS, OTHERS = 2000, 3000
LOAD = """
SET session_replication_role = replica;
INSERT INTO users (tenant_id, user_id) VALUES ('{tenant}', 'maya');
WITH turns AS (
    SELECT 'long' AS conversation, n FROM generate_series(1, {turns}) n
    UNION ALL SELECT 'other ' || o, n FROM generate_series(1, {others}) o, generate_series(1, 2) n),
kinds AS (
    SELECT * FROM (VALUES ('artifact:turn.log', NULL, 'x'), ('artifact:turn.fingerprint.v1', 'assistant_signal', NULL),
                          ('artifact:turn.log.reaction', NULL, NULL)) AS v(kind, tag, uri))
INSERT INTO conv_messages (tenant_id, id, user_id, conversation_id, turn_id, kind, place, text, tags, hosted_uri,
                           made_at)
    SELECT '{tenant}', gen_random_uuid(), 'maya', conversation, name, kind, name, '{{}}',
           array_remove(ARRAY[tag], NULL), uri,
           now() - n * interval '1 minute' FROM turns, kinds, LATERAL (SELECT 'turn_' || n || '_x' AS name);
RESET session_replication_role;
ANALYZE conv_messages
"""
SCANS = "SELECT seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'conv_messages'"
CALL = """SELECT part FROM turn_memory_context($1, 'maya', 'long', 'turn_1000_x', $2, now() - interval '1 year', true,
                                               10, 10, 16, 50, 16)"""


@pytest.fixture
async def counted(
    raw: asyncpg.Connection, a: Principal, superuser: asyncpg.Connection
) -> AsyncIterator[asyncpg.Connection]:
    """Open a transaction of a tenant with a long conversation; PostgreSQL counts the scans of each transaction."""
    await superuser.execute(LOAD.format(tenant=a.tenant_id, turns=TURNS, others=OTHERS))
    for _ in range(7):  # the sixth call takes a plan for any parameters
        await raw.fetch(CALL, a.tenant_id, ["turn_7_x"])
    async with raw.transaction():
        await bind(raw, a.tenant_id)
        yield raw


@pytest.mark.parametrize(
    ("named", "found", "most"),
    [(None, 0, 96), (["turn_7_x", "turn_1999_x"], 2, 100), (["turn_1999_"], 1, 100)],
    ids=str,
)
async def test_a_view_reads_what_it_shows(
    counted: asyncpg.Connection, a: Principal, named: list[str] | None, found: int, most: int
) -> None:
    before = await counted.fetchrow(SCANS)
    rows = await counted.fetch(CALL, a.tenant_id, named)
    parts = [row["part"] for row in rows]
    counts = {part: parts.count(part) for part in sorted(set(parts))}
    shown = {"current": 1, "current_log": 1, "log": 10, "reaction": 50, "signal": 16, "window": 10}
    assert counts == shown | ({"named": found} if found else {})
    after = await counted.fetchrow(SCANS)
    assert after["seq_scan"] == before["seq_scan"]
    assert after["idx_tup_fetch"] - before["idx_tup_fetch"] <= most
