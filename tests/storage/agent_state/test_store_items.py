"""Store items are found by index, even though row-level security keeps other conditions out of an index scan."""

import json
from itertools import product

import asyncpg
import pytest

from app.domain.principal import Principal
from app.storage.agent_state.store_items import path_bounds
from app.storage.statements import load_statements
from tests.storage.building import bind

STATEMENTS = load_statements("agent_state/store_items.sql")


async def plan(raw: asyncpg.Connection, scope: Principal, statement: str, *args: object) -> str:
    """Return the plan as the server's role, at a cost that makes a scan of the whole table expensive."""
    async with raw.transaction():
        await bind(raw, scope.tenant_id)
        await raw.execute("SET LOCAL enable_seqscan = off")
        return "\n".join(row[0] for row in await raw.fetch(f"EXPLAIN {statement}", scope.tenant_id, *args))


async def test_a_place_is_one_look_into_the_index(raw: asyncpg.Connection, a: Principal) -> None:
    for name in ("get", "delete"):
        args = ['[{"n": 0, "path": "a\\u0001", "key": "k"}]'] + [None] * (name == "get")
        assert "(path = " in await plan(raw, a, STATEMENTS[name], *args), name


async def test_a_prefix_is_a_range_of_the_index(raw: asyncpg.Connection, a: Principal) -> None:
    statement = STATEMENTS["search"].format(filtered="$4::jsonb IS NULL")
    found = await plan(raw, a, statement, *path_bounds(("a", "b")), None, 10, 0, None)
    assert "(path >= " in found
    assert "(path < " in found


def test_a_prefix_holds_what_begins_with_it_and_nothing_else() -> None:
    first, behind = path_bounds(("a", "b"))
    inside = ["a\x01b\x01", "a\x01b\x01c\x01", "a\x01b\x01\U0010ffff\x01"]
    outside = ["a\x01", "a\x01bb\x01", "a\x01a\x01", "a\x01b \x01", "b\x01", "a b\x01", "a\x01b\x02\x01"]
    assert [first <= path < behind for path in inside + outside] == [True] * len(inside) + [False] * len(outside)
    everything = path_bounds(())
    assert all(everything[0] <= path < everything[1] for path in [*inside, *outside, "\U0010ffff" * 200 + "\x01"])


TEXTS = ["9" * 200_000, "9" * 131_000 + "e999", "9" * 5000, "1e999", "-1e-999", "1e5000", ".5", "NaN", "Infinity", ""]
NUMBERS = [10**4299, -(10**4299), 1e308, 5e-324, 2]
MATCHES = "SELECT store_matches($1::jsonb, $2::jsonb)"


@pytest.mark.long
async def test_no_stored_value_makes_a_filter_fail(raw: asyncpg.Connection) -> None:
    every = [*TEXTS, *NUMBERS]
    for stored in (*every, None, [], {}):
        for operator, wanted in product(("$gt", "$lte"), every):
            await raw.fetchval(MATCHES, json.dumps({"n": stored}), json.dumps({"n": {operator: wanted}}))


async def test_a_text_too_long_for_a_number_is_compared_as_text(raw: asyncpg.Connection) -> None:
    for stored, wanted, expected in (
        ("9" * 200_000, 1, False),
        ("9" * 200_000, "8", True),
        ("1e3", "999", True),
        (10**4299, 10**4298, True),
    ):
        found = await raw.fetchval(MATCHES, json.dumps({"n": stored}), json.dumps({"n": {"$gt": wanted}}))
        assert found is expected, (str(stored)[:9], str(wanted)[:9])
