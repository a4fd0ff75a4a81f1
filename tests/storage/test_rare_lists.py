"""Pages of a list are those of a plain statement, whichever index finds the memories."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, cast
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.memory.listing import MemoryListing, parse_metadata
from app.domain.where.parsing import parse_where
from app.storage.engine import prepare_connection
from app.storage.memory.memories import MemoryStorage
from app.storage.uow import ReadTx
from tests.factories import Caller, draft
from tests.storage.building import SPACE, bind

STORAGE = MemoryStorage(cast(Any, None), SPACE)
ROWS = 1500
LOAD = """
INSERT INTO memories (tenant_id, id, user_pk, user_id, thread_id, agent_id, actor_id, run_id, role, type, category,
                      text, text_hash, importance, pinned, tags, state, metadata, version, created_at, updated_at,
                      expires_at, language)
    SELECT $1, gen_random_uuid(), user_pk_of($1, 'maya'), 'maya', CASE n % 50 WHEN 3 THEN 'talk' END,
           CASE n % 200 WHEN 9 THEN 'rare' ELSE 'planner' END, CASE n % 7 WHEN 1 THEN 'Noor' END,
           CASE n % 90 WHEN 1 THEN 'run' END, CASE WHEN n % 300 = 5 THEN 'tool' WHEN n % 2 = 0 THEN 'user' END,
           CASE WHEN n % 250 = 5 THEN 'insight' WHEN n % 3 = 0 THEN 'semantic' ELSE 'turn' END,
           CASE n % 100 WHEN 5 THEN 'tasks' ELSE 'goals' END,
           CASE n % 20 WHEN 1 THEN 'Bees dance.' ELSE 'Maya sings.' END, decode(md5(n::text), 'hex'), 1 + n % 5,
           n % 130 = 2,
           CASE WHEN n % 140 = 5 THEN '{rare,often}'::text[] WHEN n % 5 = 0 THEN '{often}' ELSE '{}' END,
           CASE n % 60 WHEN 7 THEN 'superseded' WHEN 8 THEN 'expired' ELSE 'active' END,
           jsonb_build_object('n', n) || CASE n % 150 WHEN 5 THEN '{"kind": "rare"}'::jsonb ELSE '{}' END,
           1, now() - n / 3 * interval '1 minute', now() - n % 1000 * interval '1 hour',
           CASE n % 80 WHEN 9 THEN now() + (n - 100) * interval '1 hour' END,
           CASE WHEN n % 170 = 5 THEN 'eo' WHEN n % 2 = 0 THEN 'en' END
    FROM generate_series(1, $2::int) n"""
ORDERS = {
    "created_at": "created_at {0}, id {0}",
    "updated_at": "updated_at {0}, id {0}",
    "importance": "importance {0}, created_at {0}, id {0}",
}
STATES = {
    "active": "m.state = 'active' AND coalesce(m.expires_at > now(), true)",
    "expired": "(m.state = 'expired' OR m.state = 'active' AND m.expires_at <= now())",
    "superseded": "m.state = 'superseded'",
}
PLAIN = """
SELECT m.id FROM memories m WHERE m.tenant_id = $1 AND {state} AND memory_matches(m, $2::jsonb)
    AND ($3::text[] IS NULL OR m.category = ANY ($3)) AND ($4::text IS NULL OR strpos(lower(m.text), $4) > 0)
    ORDER BY {order} LIMIT 20"""
FILTERS: tuple[dict[str, Any], ...] = (
    *({"tag": tag} for tag in ("rare", "often", "nosuch")),
    *({"language": language} for language in ("eo", "en")),
    *({"role": role} for role in ("tool", "user")),
    *({"agent_id": agent} for agent in ("rare", "planner")),
    *({"actor_id": "Noor"}, {"run_id": "run"}, {"thread_id": "talk"}, {"pinned": True}, {"user_id": "maya"}),
    *({"importance_min": 5}, {"expires_before": "later"}, {"expires_after": "later"}),
)
WHERE: tuple[dict[str, Any], ...] = (
    {"metadata.n": {"lt": 30}},
    {"metadata.n": {"gte": 1000, "lt": 1003}},
    {"metadata.kind": {"contains": "ra"}},
    {"language": {"in": ["eo", "fr"]}, "role": "user"},
    {"or": [{"role": "tool"}, {"tags": {"contains": "rare"}}]},
    {"and": [{"type": {"in": ["insight", "summary"]}}, {"not": {"importance": 1}}]},
    {"category": "tasks", "actor_id": {"ne": "Noor"}},
    {"expires_at": {"gt": "2020-01-01", "lte": "2040-01-01"}},
)


def random_listings(rng: random.Random, later: Any) -> Iterator[tuple[MemoryListing, bool]]:
    """Yield lists with random conditions, orders and states."""
    while True:
        given = {name: value for one in rng.sample(FILTERS, rng.choice([0, 1, 1, 2])) for name, value in one.items()}
        given |= {name: later for name in given if name.startswith("expires")}
        where = parse_where(rng.choice(WHERE)) if rng.random() < 0.3 else None
        if "expires_before" in given and "expires_after" in given:
            continue
        yield MemoryListing(
            Filters(where=where, **given),
            state=rng.choice(["active", "active", "active", "expired", "superseded"]),
            words=rng.choice([None, None, None, "bees", "maya"]),
            categories=rng.choice([(), (), ("tasks",), ("tasks", "goals")]),
            types=rng.choice([(), (), (), ("insight",), ("insight", "turn")]),
            metadata=rng.choice([(), (), (), (parse_metadata("kind:rare"),)]),
            sort=rng.choice(["created_at", "created_at", "updated_at", "importance"]),
            order=rng.choice(["asc", "desc"]),
        )


async def expected_ids(sql: asyncpg.Connection, tenant: UUID, listing: MemoryListing) -> list[UUID]:
    """Return what a statement without any choice of indexes finds."""
    statement = PLAIN.format(
        state=STATES[listing.state], order=ORDERS[listing.sort].format("ASC" if listing.order == "asc" else "DESC")
    )
    conditions, categories = listing.row_conditions(), listing.narrow_categories(None)
    return [row["id"] for row in await sql.fetch(statement, tenant, conditions or {}, categories, listing.words)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
async def test_pages_are_those_of_a_plain_statement(
    app: Application, caller: Caller, sql: asyncpg.Connection, seed: int
) -> None:
    tenant, rng = caller.scope.tenant_id, random.Random(seed)
    await app.memory.write.write_memory(caller.scope, draft("Maya has bees.", category="tasks"))
    await prepare_connection(sql)
    change = sql.transaction()
    await change.start()
    await bind(sql, tenant)
    await sql.execute(LOAD, tenant, ROWS)
    await sql.execute("ANALYZE memories; SET LOCAL ROLE mnema_app; SET LOCAL enable_seqscan = off")
    counts = set()
    for listing in islice(random_listings(rng, datetime.now(UTC) + timedelta(hours=1000)), 40):
        expected = await expected_ids(sql, tenant, listing)
        found: list[UUID] = []
        after = None
        while len(found) < len(expected):  # pages of 3, so that a list walks 60 rows before it asks an index
            page = await STORAGE.list_memories(ReadTx(sql), caller.scope, listing, after, 3)
            found += [memory.id for memory in page]
            if len(page) < 3:
                break
            after = listing.decode_position(listing.encode_position(page[-1]))
        assert found[:20] == expected, listing
        counts.add(len(expected))
    assert len(counts) > 5
    await change.rollback()
