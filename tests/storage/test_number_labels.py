"""The index of labels finds the numbers of a range: the labels of a range are among those of each number in it."""

import json
import operator
import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, get_args
from uuid import uuid4

import asyncpg
import pytest

from app.domain.where.numbers import Limit, labels_within

TENANT: Final = uuid4()
COMPARE: Final[Mapping[Limit, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
EDGES: Final = (
    "0", "1", "-1", "0.125", "0.1", "0.3", "-0.1", "63", "64", "-64", "65535", "65536", "65537", "-65536", "8191.875",
    "8192.125", "16777215", "16777217", "9007199254740993", "1.7e9", "1767225600", "1767225600.000001",
    "3.4028235e38", "1e37", "1e38", "-1e38", "1e300", "-1e300", "1e-37", "1e-38", "1e-300", "-1e-300",
)  # fmt: skip


def numbers(seed: int) -> list[str]:
    """Return numbers as JSON writes them: edges, and random ones of all sizes and their neighbours."""
    rng = random.Random(seed)
    near = [rng.choice([-1, 1]) * round(rng.random() * 10 ** rng.randint(-6, 12), rng.randint(0, 8)) for _ in range(60)]
    beside = [number * (1 + rng.choice([-1, 1]) * 2 ** -rng.randint(14, 50)) for number in near[:30]]
    return [*EDGES, *map(repr, near + beside), *(str(rng.randint(-300, 300)) for _ in range(30))]


async def labels_of(sql: asyncpg.Connection, values: list[str]) -> list[set[int]]:
    """Return the labels in the index of each value, which is that of the key `n` of a memory of TENANT."""
    rows = await sql.fetch(
        """SELECT number_labels($1, jsonb_build_object('n', value)) AS labels
           FROM jsonb_array_elements($2::text::jsonb) WITH ORDINALITY e(value, place) ORDER BY place""",
        TENANT,
        f"[{', '.join(values)}]",
    )
    return [set(row["labels"] or ()) for row in rows]


async def labels_of_range(sql: asyncpg.Connection, name: Limit, limit: float) -> set[int]:
    """Return the labels with which the index is asked for a range of the key `n`."""
    asked = json.dumps({"n": labels_within(name, limit)})
    return set(await sql.fetchval("SELECT hashed_labels($1, $2::text::jsonb)", TENANT, asked))


async def test_each_number_of_a_range_has_a_label_of_it(sql: asyncpg.Connection) -> None:
    found = numbers(7)
    labels = await labels_of(sql, found)
    for limit in map(float, found):
        for name in get_args(Limit):
            within = await labels_of_range(sql, name, limit)
            for number, known in zip(found, labels, strict=True):
                if COMPARE[name](Decimal(number), Decimal(limit)):
                    assert within & known, (number, name, limit)


async def test_a_number_beyond_a_range_has_none_of_its_labels_if_both_are_short(sql: asyncpg.Connection) -> None:
    found = [*map(str, range(-300, 300, 7)), "-2", "-1", "0", "1", "2", "1.5", "4.5", "4.625", "65535"]
    labels = await labels_of(sql, found)
    for limit in map(float, found):
        for name in get_args(Limit):
            within = await labels_of_range(sql, name, limit)
            for number, known in zip(found, labels, strict=True):
                assert bool(within & known) == COMPARE[name](float(number), limit), (number, name, limit)


@pytest.mark.parametrize("limit", [0.5, -3.0, 1e9, 1e-9, -1e300])
def test_a_range_is_a_few_labels(limit: float) -> None:
    for name in get_args(Limit):
        labels = labels_within(name, limit)
        assert len(labels) == len(set(labels)) <= 320


async def test_numbers_of_lists_and_of_nested_keys_have_labels(sql: asyncpg.Connection) -> None:
    [one], [two] = await labels_of(sql, ["1"]), await labels_of(sql, ["2.5"])
    given = ('[1, [2.5], "3"]', '{"a": {"b": 1}}', '"1"', "true", "null")
    assert await labels_of(sql, [*given]) == [one | two, one, set(), set(), set()]


async def test_a_key_and_a_tenant_have_labels_of_their_own(sql: asyncpg.Connection) -> None:
    labels = "SELECT number_labels($1, $2::text::jsonb)"
    found = [await sql.fetchval(labels, t, json.dumps({k: 1})) for t in (TENANT, uuid4()) for k in ("n", "m")]
    assert len({label for labels in found for label in labels}) == 16


async def test_a_key_with_many_numbers_is_in_every_range(sql: asyncpg.Connection) -> None:
    eight, nine = await labels_of(sql, [json.dumps(list(range(8))), json.dumps(list(range(9)))])
    assert len(eight) > 8
    for name in get_args(Limit):
        assert nine < await labels_of_range(sql, name, 10**6)


async def test_each_of_many_keys_is_in_every_range(sql: asyncpg.Connection) -> None:
    labels = "SELECT number_labels($1, (SELECT jsonb_object_agg(k, 1) FROM unnest($2::text[]) k))"
    few, many = [await sql.fetchval(labels, TENANT, ["n", *map(str, range(count))]) for count in (31, 32)]
    assert (len(few), len(many)) == (32 * 4, 33)
    for name in get_args(Limit):
        assert set(many) & await labels_of_range(sql, name, 10**6)


async def test_a_number_of_any_length_has_labels(sql: asyncpg.Connection) -> None:
    huge, tiny = await labels_of(sql, ["1e400", "1e-400"])
    assert huge & await labels_of_range(sql, "gt", 1e300)
    assert tiny & await labels_of_range(sql, "gt", 0)
