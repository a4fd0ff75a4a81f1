"""The rows that questions and statements read, among 20,000 facts: those of one topic in one thread."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import asyncpg
import pytest

from app.domain.facts.fact import FactOperation, FactStatement
from app.domain.principal import Principal
from app.storage.fact_rows import statement_row
from tests.storage.building import bind

USERS, TALKATIVE, THREADS = 600, "talkative", 400
LOAD = """
SET session_replication_role = replica;
WITH places AS (
    SELECT 'user ' || u AS user_id, 'thread ' || t AS thread_id, topic FROM generate_series(1, {users}) u,
        generate_series(1, 2) t, unnest(ARRAY['favorite_colors', 'favorite_foods', 'favorite_movies']) topic
    UNION ALL SELECT '{talkative}', 'thread ' || t, 'favorite_colors' FROM generate_series(1, {threads}) t),
known AS (INSERT INTO users (tenant_id, user_id) SELECT DISTINCT '{tenant}'::uuid, user_id FROM places)
INSERT INTO facts (tenant_id, id, user_id, thread_id, topic_key, kind, rank, value, value_key, category, created_at,
                   updated_at)
    SELECT '{tenant}', gen_random_uuid(), user_id, thread_id, topic, 'ranked', r, 'v' || r, 'v' || r, 'preferences',
           now(), now() FROM places, generate_series(1, 5) r;
RESET session_replication_role;
ANALYZE facts, users
"""
SCANS = "SELECT seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'facts'"
ANSWER = "SELECT place, (fact).value FROM answer_facts($1, $2, $3, $4, true, NULL)"


@pytest.fixture
async def crowded(a: Principal, superuser: asyncpg.Connection) -> Principal:
    """Return a tenant with 20,000 facts: of many users, and of one who stated a topic in 400 threads."""
    await superuser.execute(LOAD.format(users=USERS, talkative=TALKATIVE, threads=THREADS, tenant=a.tenant_id))
    assert await superuser.fetchval("SELECT count(*) FROM facts") == 20_000
    return a


@pytest.fixture
async def counted(raw: asyncpg.Connection, crowded: Principal) -> AsyncIterator[asyncpg.Connection]:
    """Open a transaction of the tenant; PostgreSQL counts the scans of each transaction."""
    async with raw.transaction():
        await bind(raw, crowded.tenant_id)
        yield raw


@pytest.mark.long
@pytest.mark.parametrize(
    ("user", "thread", "topics", "answered", "most"),
    [
        ("user 77", "thread 2", ["favorite_colors"], 5, 15),
        ("user 77", "thread 2", ["favorite_colors", "favorite_foods"], 10, 30),
        ("user 77", "thread 2", [None], 5, 30),
        ("user 77", "elsewhere", ["favorite_colors"], 5, 45),
        ("user 77", None, ["favorite_colors"], 5, 45),
        ("nobody", None, ["favorite_colors"], 0, 0),
        (TALKATIVE, "thread 300", ["favorite_colors"], 5, 10),
        (TALKATIVE, "thread 300", [None], 5, 15),
        (TALKATIVE, "elsewhere", ["favorite_colors"], 5, 30),
    ],
)
async def test_a_question_reads_the_rows_of_its_topics(
    crowded: Principal,
    counted: asyncpg.Connection,
    user: str,
    thread: str | None,
    topics: list[str | None],
    answered: int,
    most: int,
) -> None:
    rows = await counted.fetch(ANSWER, crowded.tenant_id, user, thread, topics)
    assert len(rows) == answered
    scans = await counted.fetchrow(SCANS)
    assert scans["seq_scan"] == 0
    assert scans["idx_tup_fetch"] <= most


@pytest.mark.long
@pytest.mark.parametrize("user", ["user 77", TALKATIVE])
@pytest.mark.parametrize("thread", ["thread 2", "new thread", None])
async def test_a_statement_reads_the_rows_of_its_topic(
    crowded: Principal, counted: asyncpg.Connection, user: str, thread: str | None
) -> None:
    three = FactOperation("list", "favorite_colors", ((1, "red"), (2, "white"), (3, "blue")))
    statement = FactStatement(user, thread, "preferences", (three,), datetime.now(UTC))
    given = json.dumps([statement_row(statement, "planner")])
    applied = json.loads(await counted.fetchval("SELECT apply_facts($1, $2)", crowded.tenant_id, given))
    assert len(applied["answers"][0]["done"]) == (5 if thread == "thread 2" else 3)  # ranks 4 and 5 go
    scans = await counted.fetchrow(SCANS)
    assert scans["seq_scan"] == 0
    assert scans["idx_tup_fetch"] <= 100
