"""The memories of a tenant that match a filter are found whether an index serves it or not."""

import json
import random
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
           jsonb_build_object('n', n) || CASE n % 300 WHEN 7
               THEN '{"rare": "yes", "nested": {"a": 1}, "list": [1, [10]]}'::jsonb ELSE '{}' END, 1, now(), now()
    FROM generate_series(1, $2::int) n"""
MATCHING = "SELECT unnest(matching_memories($1, $2, ARRAY['goals'], $3, $4)) AS id"
ALL = "SELECT id FROM memories m WHERE m.tenant_id = $1 AND m.category = 'goals' AND memory_matches(m, $2)"
WHERE: dict[str, tuple[dict[str, Any], int]] = {
    "part of a text, few have the key": ({"metadata.rare": {"contains": "ye"}}, 5),
    "few have the key": ({"metadata.nested.a": {"exists": True}}, 5),
    "a number of a nested key": ({"metadata.nested.a": {"gt": 0}}, 5),
    "few numbers, all have the key": ({"metadata.n": {"gt": ROWS - 3}}, 3),
    "a number between two limits": ({"metadata.n": {"gte": 1000, "lt": 1004}}, 4),
    "either of two ranges": ({"or": [{"metadata.n": {"lt": 3}}, {"metadata.n": {"gt": ROWS - 3}}]}, 5),
    "limits of several elements of a list": ({"metadata.list": {"gt": 9, "lt": 2}}, 5),
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


NUMBERED = """
INSERT INTO memories (tenant_id, id, user_pk, user_id, type, category, text, text_hash, importance, pinned, tags, state,
                      metadata, version, created_at, updated_at)
    SELECT $1, gen_random_uuid(), user_pk_of($1, 'maya'), 'maya', 'turn', 'goals', 'text', '', 3, false, '{}', 'active',
           metadata::jsonb, 1, now(), now()
    FROM unnest($2::text[]) metadata"""
FROM_INDEX = "SELECT unnest(numbered_memories(NULL, ARRAY['goals'], $1, 100000)) AS id"
NUMBERS = (
    "0", "-0.0", "1", "-1", "2", "2.000", "2.5", "0.1", "1e3", "1000", "-1e-3", "65535", "65536", "65536.5",
    "1767225600", "9007199254740992", "9007199254740993", "-9007199254740993", "12345678901234567890", "1e37",
    "1.5e300", "-1.5e300", "1e400", "-1e400", "1e-37", "1e-400", "-1e-400", "3.4028236e38", "1e-45",
)  # fmt: skip
LIMITS = (
    0, -0.0, 1, -1, 2, 2.5, 0.1, 1000, -1e-3, 65535, 65536, 1767225600, 2**53, 2**53 + 1, -(2**53),
    12345678901234567890, 1e37, 1e300, -1e300, 10**299, 1e-37, -1e-300, 1e-45,
)  # fmt: skip
OTHER = ("true", "false", "null", '"2"', '"x"', "[]", "{}", '{"x": "1"}')
ORDERED = ("gt", "gte", "lt", "lte")


def random_numbers(rng: random.Random) -> str:
    """Return metadata, as JSON text, with numbers and others as values, in lists and behind further keys."""

    def value() -> str:
        return rng.choice(NUMBERS) if rng.random() < 0.7 else rng.choice(OTHER)

    shapes = (
        value,
        lambda: f"[{', '.join(value() for _ in range(rng.choice([1, 3, 20])))}]",
        lambda: f'{{"x": {value()}, "y": {{"x": {value()}}}}}',
        lambda: f'[{{"x": {value()}}}, [{value()}, [{value()}]]]',
    )
    many = [f'"k{n}": {value()}' for n in range(40)] if rng.random() < 0.1 else []
    pairs = [f'"{key}": {rng.choice(shapes)()}' for key in ("n", "m", 'we ird\\"k.ey') if rng.random() < 0.8]
    return f"{{{', '.join(pairs + many)}}}"


def random_range(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    """Return a filter with ranges of numbers, most of which must be true."""
    kind = rng.random() if depth else 1
    if kind < 0.3:
        return {rng.choice(["and", "or"]): [random_range(rng, depth - 1) for _ in range(rng.choice([1, 2, 3]))]}
    if kind < 0.35:
        return {"and": [{"not": random_range(rng, 0)}, random_range(rng, 0)]}
    field = "metadata." + rng.choice(["n", "n", "m", "n.x", "n.y.x", 'we ird"k\\.ey', "k7"])
    return {field: {name: rng.choice(LIMITS) for name in rng.sample(ORDERED, rng.choice([1, 1, 2]))}}


@pytest.mark.parametrize("seed", range(4))
async def test_the_index_of_numbers_finds_all_that_match(
    app: Application, caller: Caller, sql: asyncpg.Connection, seed: int
) -> None:
    tenant, rng = caller.scope.tenant_id, random.Random(seed)
    await app.memory.write.write_memory(caller.scope, draft("Maya has bees.", category="tasks"))
    change = sql.transaction()
    await change.start()
    await bind(sql, tenant)
    await sql.execute("SET LOCAL enable_seqscan = off")
    await sql.execute(NUMBERED, tenant, [random_numbers(rng) for _ in range(300)])
    counts = set()
    for _ in range(80):
        where = random_range(rng)
        conditions = Filters(where=parse_where(where)).row_conditions()
        if "where_ranges" not in conditions:
            continue
        text = json.dumps(conditions)
        expected = {row["id"] for row in await sql.fetch(ALL, tenant, text)}
        found = [row["id"] for row in await sql.fetch(FROM_INDEX, text)]
        assert sorted(found) == sorted(expected), where
        counts.add(len(expected))
    assert len(counts) > 20
    await change.rollback()
