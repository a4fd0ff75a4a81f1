"""The memories of a tenant that match a filter are found whether the index of labels serves it or not."""

import json
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.where.parsing import parse_where
from tests.factories import Caller, draft
from tests.storage.building import bind

ROWS = 1500
LOAD = """
INSERT INTO memories (tenant_id, id, user_pk, user_id, type, category, text, text_hash, importance, pinned, tags, state,
                      metadata, version, created_at, updated_at)
    SELECT $1, gen_random_uuid(), user_pk_of($1, 'maya'), 'maya', 'turn', 'goals', 'text', '', 3, false, '{}', 'active',
           jsonb_build_object('n', n) || CASE n % 300 WHEN 7 THEN '{"rare": "yes", "nested": {"a": 1}}'::jsonb
                                         ELSE '{}' END, 1, now(), now()
    FROM generate_series(1, $2::int) n"""
MATCHING = "SELECT unnest(matching_memories($1, $2, ARRAY['goals'], $3, $4)) AS id"
ALL = "SELECT id FROM memories m WHERE m.tenant_id = $1 AND m.category = 'goals' AND memory_matches(m, $2)"
WHERE: dict[str, tuple[dict[str, Any], int]] = {
    "part of a text, few have the key": ({"metadata.rare": {"contains": "ye"}}, 5),
    "few have the key": ({"metadata.nested.a": {"exists": True}}, 5),
    "a number of a nested key": ({"metadata.nested.a": {"gt": 0}}, 5),
    "few numbers, all have the key": ({"metadata.n": {"gt": ROWS - 3}}, 3),
    "an equal number": ({"metadata.n": 8}, 1),
    "few of those without a key": ({"metadata.rare": {"ne": "yes"}, "metadata.n": {"lt": 4}}, 3),
    "either": ({"or": [{"metadata.rare": {"contains": "ye"}}, {"metadata.n": 8}]}, 6),
    "none": ({"metadata.nobody": {"contains": "a"}}, 0),
}
"""A filter, and the number of memories that match it."""


@pytest.mark.parametrize("name", WHERE)
async def test_all_that_match_are_found(app: Application, caller: Caller, sql: asyncpg.Connection, name: str) -> None:
    tenant = caller.scope.tenant_id
    where, number = WHERE[name]
    conditions = Filters(where=parse_where(where)).row_conditions()
    await app.memory.write.write_memory(caller.scope, draft("Maya has bees.", category="tasks"))
    change = sql.transaction()
    await change.start()
    await bind(sql, tenant)
    await sql.execute(LOAD, tenant, ROWS)
    text = json.dumps(conditions)
    expected = {row["id"] for row in await sql.fetch(ALL, tenant, text)}
    assert len(expected) == number
    maya = await sql.fetchval("SELECT user_pk_of($1, 'maya')", tenant)
    for user in (None, maya):
        for limit in (501, None):
            found = [row["id"] for row in await sql.fetch(MATCHING, tenant, user, text, limit)]
            assert sorted(found) == sorted(expected)
    await change.rollback()
