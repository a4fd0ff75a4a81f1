"""The rows that overviews and lists read, among 20,000 memories of 400 users."""

from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from app.domain.filters import EventFilters, Filters
from app.domain.memory.listing import MemoryListing, parse_metadata
from app.domain.principal import Principal
from app.domain.where.parsing import parse_where
from app.storage.engine import prepare_connection
from app.storage.memory.memories import MemoryStorage
from app.storage.operations.events import list_events
from app.storage.operations.overview import OverviewStorage, list_relations
from app.storage.uow import ReadTx, UnitOfWork
from tests.storage.building import SPACE, bind

LOAD = """
SET session_replication_role = replica;
INSERT INTO users (tenant_id, user_id)
    SELECT '{tenant}', 'user ' || lpad(u::text, 3, '0') FROM generate_series(0, 399) u;
INSERT INTO memories (tenant_id, id, user_pk, user_id, thread_id, agent_id, actor_id, type, category, text, text_hash,
                      importance, pinned, tags, state, metadata, version, created_at, updated_at, role, language,
                      expires_at)
    SELECT '{tenant}', gen_random_uuid(), u.user_pk, u.user_id, 'thread of ' || u.user_id,
           CASE n % 1000 WHEN 13 THEN 'auditor' ELSE 'planner' END, CASE n % 1000 WHEN 14 THEN 'Noor' ELSE 'Maya' END,
           CASE n % 1000 WHEN 16 THEN 'insight' ELSE (ARRAY['semantic', 'turn'])[1 + n % 2] END,
           (ARRAY['tasks', 'goals', 'profile'])[1 + n % 3],
           'Maya keeps note ' || n || ' about the launch.', decode(md5(n::text), 'hex'), 1 + n % 5,
           n % 1000 = 15, CASE n % 1000 WHEN 17 THEN '{{rare}}' ELSE '{{often}}' END::text[],
           (CASE n % 1000 WHEN 11 THEN 'soft_deleted' WHEN 12 THEN 'expired' ELSE 'active' END),
           jsonb_build_object('n', n, 'kind', CASE n % 1000 WHEN 18 THEN 'rare' ELSE 'often' END), 1,
           now() - n * interval '1 minute', now() - n * interval '1 minute',
           CASE n % 1000 WHEN 19 THEN 'tool' ELSE 'user' END, CASE n % 1000 WHEN 20 THEN 'eo' ELSE 'en' END,
           CASE n % 1000 WHEN 21 THEN now() + interval '1 day' END
    FROM generate_series(0, 19999) n JOIN users u ON u.tenant_id = '{tenant}'
        AND u.user_id = 'user ' || lpad((n % 400)::text, 3, '0');
INSERT INTO thread_revision (tenant_id, thread_id, rev) SELECT DISTINCT tenant_id, thread_id, 1 FROM memories;
INSERT INTO relations (tenant_id, id, from_id, to_id, strength)
    SELECT tenant_id, gen_random_uuid(), id::text, next, 0.5 FROM (
        SELECT tenant_id, id, lead(id::text) OVER (PARTITION BY user_pk ORDER BY created_at) AS next FROM memories) m
    WHERE next IS NOT NULL;
INSERT INTO events (tenant_id, id, user_id, thread_id, node, op, status, category, ts)
    SELECT tenant_id, gen_random_uuid(), user_id, thread_id, 'hotpath', 'create', 'ok', category, created_at
    FROM memories;
SELECT recount_memories('{tenant}');
RESET session_replication_role;
"""
SCANS = "SELECT relname, seq_scan, seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = ANY ($1)"
READ = ("memories", "memory_counts", "relations", "events", "thread_revision", "users")
Read = Callable[[ReadTx, Principal, MemoryStorage], Coroutine[Any, Any, list[Any]]]
OF_USER = EventFilters(user_id="user 007")
OVERVIEW = OverviewStorage()


def listed(limit: int = 50, **fields: Any) -> Read:
    """Return the read of one page of memories."""
    return lambda tx, scope, memories: memories.list_memories(tx, scope, MemoryListing(**fields), None, limit)


READS: dict[str, tuple[Read, int, int]] = {
    "users": (lambda tx, scope, _: OVERVIEW.list_users(tx, scope, None, None, 50, "activity"), 50, 600),
    "threads": (lambda tx, scope, _: OVERVIEW.list_threads(tx, scope, None, None, None, 20), 20, 2500),
    "threads of a user": (lambda tx, scope, _: OVERVIEW.list_threads(tx, scope, "user 007", None, None, 20), 1, 600),
    "relations": (lambda tx, scope, _: list_relations(tx, scope, "user 007", 0.0, 50), 49, 500),
    "events": (lambda tx, scope, _: list_events(tx, scope, EventFilters(), None, 50), 50, 200),
    "events of a user": (lambda tx, scope, _: list_events(tx, scope, OF_USER, None, 50), 50, 200),
    "newest": (listed(), 50, 400),
    "most important": (listed(sort="importance"), 50, 400),
    "least important": (listed(sort="importance", order="asc"), 50, 400),
    "changed last": (listed(sort="updated_at"), 50, 400),
    "changed first": (listed(sort="updated_at", order="asc"), 50, 400),
    "deleted": (listed(state="soft_deleted"), 20, 200),
    "deleted, most important": (listed(state="soft_deleted", sort="importance"), 20, 200),
    "expired": (listed(state="expired"), 20, 200),
    "counts": (lambda tx, scope, _: OVERVIEW.count_activity(tx, scope, ["planner"]), 6, 10),
    "of a user": (listed(filters=Filters(user_id="user 007"), sort="importance"), 50, 400),
    "a rare word": (listed(words="note 4242"), 1, 1300),  # it walks twenty rows for each wanted one first
    "a common word": (listed(words="launch"), 50, 400),
    "words of a user": (listed(words="launch", filters=Filters(user_id="user 007")), 50, 400),
    "a thread": (listed(filters=Filters(thread_id="thread of user 007")), 50, 400),
    "an agent with few memories": (listed(filters=Filters(agent_id="auditor")), 20, 200),
    "an agent that is unknown": (listed(filters=Filters(agent_id="nobody")), 0, 50),
    "an agent with most memories": (listed(filters=Filters(agent_id="planner")), 50, 400),
    "an actor with few memories": (listed(filters=Filters(actor_id="Noor")), 20, 200),
    "pinned": (listed(filters=Filters(pinned=True)), 20, 200),
    "metadata": (listed(1, metadata=(parse_metadata("n:7"),)), 1, 200),
    "a rare type": (listed(types=("insight",)), 20, 100),
    "a rare role": (listed(filters=Filters(role="tool")), 20, 100),
    "a rare language": (listed(filters=Filters(language="eo")), 20, 100),
    "no such type": (listed(types=("summary",)), 0, 10),
    "a rare type, most important": (listed(types=("insight",), sort="importance"), 20, 1200),
    "either of two rare types": (listed(types=("insight", "summary")), 20, 1200),
    "a rare language, changed last": (listed(filters=Filters(language="eo"), sort="updated_at"), 20, 1200),
    "a rare tag": (listed(filters=Filters(tag="rare")), 20, 1200),
    "no such tag": (listed(filters=Filters(tag="nosuch")), 0, 1200),
    "rare metadata": (listed(metadata=(parse_metadata("kind:rare"),)), 20, 1200),
    "a range of numbers": (listed(filters=Filters(where=parse_where({"metadata.n": {"gte": 19_980}}))), 20, 1200),
    "a rare role of a filter": (listed(filters=Filters(where=parse_where({"role": {"in": ["tool", "x"]}}))), 20, 1200),
    "expiring": (listed(filters=Filters(expires_before=datetime.now(UTC) + timedelta(days=3))), 20, 1200),
    "deleted, of a rare agent": (listed(state="soft_deleted", filters=Filters(agent_id="auditor")), 0, 100),
    "a rare tag of a frequent word": (listed(words="launch", filters=Filters(tag="rare")), 20, 1200),
}
"""A read, the rows that it answers, and the most rows of tables that it may read for them."""


@pytest.fixture
async def crowded(a: Principal, superuser: asyncpg.Connection) -> Principal:
    """Return a tenant with 20,000 memories, events and relations, a vacuum after them."""
    await superuser.execute(LOAD.format(tenant=a.tenant_id))
    await superuser.execute("VACUUM (ANALYZE)")
    return a


@pytest.fixture
async def counted(raw: asyncpg.Connection, crowded: Principal) -> AsyncIterator[asyncpg.Connection]:
    """Open a transaction of the tenant; PostgreSQL counts the scans of each transaction."""
    await prepare_connection(raw)
    async with raw.transaction():
        await bind(raw, crowded.tenant_id)
        yield raw


@pytest.mark.long
@pytest.mark.parametrize("name", READS)
async def test_a_page_reads_few_rows(
    uow: UnitOfWork, crowded: Principal, counted: asyncpg.Connection, name: str
) -> None:
    read, answered, most = READS[name]
    rows = await read(ReadTx(counted), crowded, MemoryStorage(uow, SPACE))
    assert len(rows) == answered
    scans = await counted.fetch(SCANS, list(READ))
    assert sum(row["seq_tup_read"] + (row["idx_tup_fetch"] or 0) for row in scans) <= most, scans
