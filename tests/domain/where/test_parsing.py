"""Filters are read once, within bounds, and each error names its place."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.where.parsing import parse_where, read_where
from app.domain.where.paths import render_where
from app.domain.where.tree import FIELDS, Group, Leaf, Not
from tests.where_trees import HOSTILE, random_where, spoil_tree

PAGE = Path(__file__).resolve().parents[3] / "docs" / "filters.md"


def test_the_example_of_the_page_is_a_filter() -> None:
    block = PAGE.read_text(encoding="utf-8").partition("```json\n")[2].partition("```")[0]
    assert isinstance(parse_where(json.loads(block)), Group)


def test_a_new_field_moves_no_other() -> None:
    """A server of before revision 0022 that still runs reads the values at the places that they had."""
    assert list(FIELDS).index("state") + 1 == list(FIELDS).index("created_at")
    assert list(FIELDS)[-2:] == ["expires_at", "origin"]


def test_a_tree_is_what_it_says() -> None:
    read = parse_where({"not": {"or": [{"tags": "a"}, {"metadata.x\\.y.z": [1, None]}]}, "importance": {"gte": 3}})
    assert read == Group(
        "and",
        (
            Not(Group("or", (Leaf("tags", "eq", ("a",)), Leaf("metadata", "in", (1, None), ("x.y", "z"))))),
            Leaf("importance", "gte", (3,)),
        ),
    )


def test_json_text_is_read_and_nothing_is_no_filter() -> None:
    assert read_where('{"pinned": true}') == Leaf("pinned", "eq", (True,))
    assert (read_where(None), parse_where(None)) == (None, None)


ERRORS: list[tuple[Any, str]] = [
    ([], "where: expected an object with at least one condition"),
    ({}, "where: expected an object with at least one condition"),
    ({"and": []}, "where.and: expected a list of conditions"),
    ({"or": {}}, "where.or: expected a list of conditions"),
    ({"not": []}, "where.not: expected an object with at least one condition"),
    ({"and": [{"pinned": True}, 3]}, "where.and[1]: expected an object with at least one condition"),
    (
        {"and": [{"pinned": True}, {"importanse": 3}]},
        "where.and[1].importanse: unknown field; did you mean 'importance'?",
    ),
    ({"entity": "Maya"}, "where.entity: unknown field; "),
    ({"state": "active"}, "where.state: unknown field; "),
    ({"metadata": {"eq": {}}}, "where.metadata: unknown field; did you mean 'metadata.KEY'?"),
    ({"metadata.": 1}, "where.metadata.: expected 1 to 8 keys"),
    ({"metadata.a..b": 1}, "where.metadata.a..b: expected 1 to 8 keys"),
    ({"importance": {}}, "where.importance: expected an operator: "),
    ({"importance": {"gtee": 3}}, "where.importance.gtee: no operator of this field; did you mean 'gte'?"),
    ({"importance": {"contains": 3}}, "where.importance.contains: no operator of this field; it takes: eq, exists, gt"),
    ({"importance": {"gte": "3"}}, "where.importance.gte: expected a number"),
    ({"importance": {"gte": True}}, "where.importance.gte: expected a number"),
    ({"importance": {"gte": 10**400}}, "where.importance.gte: expected a number up to 1e+300"),
    ({"importance": {"gte": float("nan")}}, "where.importance.gte: expected a number up to 1e+300"),
    ({"importance": {"in": []}}, "where.importance.in: expected a list with at least one value"),
    ({"importance": {"in": 3}}, "where.importance.in: expected a list with at least one value"),
    ({"pinned": 1}, "where.pinned.eq: expected true or false"),
    ({"role": None}, "where.role.eq: expected a text; null is no value: use exists"),
    ({"role": {"exists": "yes"}}, "where.role.exists: expected true or false"),
    ({"role": "x" * 1001}, "where.role.eq: expected a text of 0 to 1000 characters"),
    ({"text": {"contains": ""}}, "where.text.contains: expected a text of 1 to 1000 characters"),
    ({"role": "a\x00b"}, "where.role.eq: A NUL character"),
    ({"role": "\ud800"}, "where.role.eq: A NUL character"),
    ({"metadata.a\x00": 1}, "where.metadata.a\x00: A NUL character"),
    ({"metadata.k": {"gt": None}}, "where.metadata.k.gt: expected a text or a number"),
    ({"metadata.k": {"gt": True}}, "where.metadata.k.gt: expected a text or a number"),
    ({"metadata.k": {"eq": {"a": 1}}}, "where.metadata.k.eq: expected a text, a number, true or false"),
    ({"created_at": "soon"}, "where.created_at.eq: expected an ISO 8601 date or time"),
    ({"created_at": {"lt": 7}}, "where.created_at.lt: expected an ISO 8601 date or time"),
]


@pytest.mark.parametrize(("given", "message"), ERRORS)
def test_an_error_names_the_place_and_what_would_be_right(given: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_where(given)
    assert str(refused.value).startswith(message)
    assert refused.value.extra["param"] == message.partition(": ")[0]


@pytest.mark.parametrize("text", ["", "{", "null and void", "[" * 100_000, '"x"', "3"])
def test_a_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="where: expected an object"):
        read_where(text)


def nested(depth: int) -> dict[str, Any]:
    return {"not": nested(depth - 1)} if depth > 1 else {"pinned": True}


@pytest.mark.parametrize(
    ("fits", "is_too_large", "problem"),
    [
        (nested(8), nested(9), "at most 8 levels"),
        ({"and": [{"pinned": True}] * 99}, {"and": [{"pinned": True}] * 100}, "at most 100 conditions"),
        (
            {"and": [{"text": {"contains": "x"}}] * 20},
            {"and": [{"text": {"contains": "x"}}] * 21},
            "at most 20 searches",
        ),
        ({"role": ["x"] * 200}, {"and": [{"role": ["x"] * 100}, {"role": ["x"] * 101}]}, "at most 200 values"),
        ({"metadata.a.b.c.d.e.f.g.h": 1}, {"metadata.a.b.c.d.e.f.g.h.i": 1}, "1 to 8 keys"),
    ],
)
def test_a_filter_has_bounds(fits: dict[str, Any], is_too_large: dict[str, Any], problem: str) -> None:
    parse_where(fits)
    with pytest.raises(InvalidInput, match=problem):
        parse_where(is_too_large)


def test_three_hundred_malformed_trees_are_refused() -> None:
    rng, refused = random.Random(3), 0
    while refused < 300:
        for tree in spoil_tree(random_where(rng), rng):
            with pytest.raises(InvalidInput):
                parse_where(tree)
            refused += 1


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_stays_a_value(text: str) -> None:
    """Values are variables of the path; where they stand in it, they are quoted as JSON."""
    leaf = Leaf("metadata", "contains", (text,), (text,))
    path = render_where(leaf).path
    assert path.replace(json.dumps(text, ensure_ascii=False), "?") == (
        '($.?.type() == "string" && exists($.? ? (@ like_regex ? flag "q"))) || (exists($.? ? (@ == $v0[*])))'
    )


def test_conditions_with_an_index_are_named_and_all_others_form_one_path() -> None:
    where = parse_where(
        {"and": [{"agent_id": "a"}, {"importance": {"gte": 2}}, {"tags": "x"}], "importance": {"lte": 2.5}}
    )
    conditions = Filters(role="user", agent_id="b", where=where).row_conditions()
    assert {name: value for name, value in conditions.items() if not name.startswith("where")} == {
        "role": "user",
        "agent_id": "b",
        "importance_min": 2,
    }
    assert conditions["where_values"] == {"v0": ["a"], "v1": ["x"], "v2": [2.5]}
    assert list(conditions["where_fields"]) == ["agent_id", "importance", "tags"]


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ({"importance": {"gt": 3}}, {"importance_min": 4}),
        ({"importance": {"lt": 3}}, {"importance_max": 2}),
        ({"importance": 3}, {"importance_min": 3, "importance_max": 3}),
        ({"created_at": {"gt": "2026-01-02T03:04:05Z"}}, {"created_after": "2026-01-02T03:04:05.000001+00:00"}),
        ({"updated_at": {"lte": "2026-01-02T03:04:05Z"}}, {"updated_before": "2026-01-02T03:04:05.000001+00:00"}),
    ],
)
def test_limits_of_integers_and_times_are_named_whether_they_belong_to_the_range_or_not(
    where: dict[str, Any], named: dict[str, Any]
) -> None:
    assert Filters(where=parse_where(where)).row_conditions() == named


def test_the_last_moment_stays_in_the_path() -> None:
    last = Leaf("created_at", "lte", (datetime.max.replace(tzinfo=UTC),))
    assert list(Filters(where=last).row_conditions()["where_fields"]) == ["created_at"]


def test_characters_that_a_text_must_have_are_named() -> None:
    where = parse_where({"text": {"contains": "kayak"}, "not": {"text": {"contains": "oar"}}})
    conditions = Filters(where=where).row_conditions()
    assert (conditions["text_contains"], list(conditions["where_fields"])) == ("kayak", ["text"])


def test_a_filter_of_metadata_alone_reads_them_in_place() -> None:
    alone, beside = (parse_where({"metadata.k": 1} | more) for more in ({}, {"origin": "api"}))
    assert Filters(where=alone).row_conditions()["where"] == 'exists($."k" ? (@ == $v0[*]))'
    assert '$[5]."k"' in Filters(where=beside).row_conditions()["where"]


@pytest.mark.parametrize("value", [2.5, 3.0, -1, 10**20, 1e200])
def test_a_number_that_no_column_has_stays_in_the_path(value: float) -> None:
    conditions = Filters(where=parse_where({"importance": {"gte": value}})).row_conditions()
    assert (conditions.get("importance_min"), conditions["where_values"]) == (None, {"v0": [value]})


def test_an_index_of_numbers_serves_ranges_that_must_be_true() -> None:
    def ranges(where: dict[str, Any]) -> tuple[list[set[str]], str | None]:
        conditions = Filters(where=parse_where(where)).row_conditions()
        return [set(labels) for labels in conditions.get("where_ranges", ())], conditions.get("where_numbers")

    low, high, other = {"metadata.a": {"gt": 1}}, {"metadata.a": {"lt": 2.5}}, {"metadata.b.c": {"gte": -3}}
    assert ranges(low) == ([{"a"}], '(exists($."a" ? (@ > 1)))')
    both = '(exists($."a" ? (@ > 1))) && (exists($."a" ? (@ < 2.5)))'
    assert ranges({"metadata.a": {"gt": 1, "lt": 2.5}, "tags": "x"}) == ([{"a"}, {"a"}], both)
    assert ranges({"and": [low, high, other]}) == ranges({"and": [low, high]})
    assert ranges({"or": [low, other]}) == ([{"a", "b"}], '(exists($."a" ? (@ > 1)) || exists($."b"."c" ? (@ >= -3)))')
    assert ranges({"or": [low, {"and": [{"pinned": True}, other]}]}) == ranges({"or": [low, other]})
    for none in (
        {"or": [low, {"pinned": True}]},
        {"or": [low] * 5},
        {"not": low},
        {"metadata.a": {"gt": "1"}},
        {"importance": {"gt": 2.5}},
        {"metadata.a": 1},
    ):
        assert ranges(none) == ([], None)


def test_an_index_serves_what_must_be_equal_and_what_needs_a_key() -> None:
    def labels(where: dict[str, Any]) -> str | None:
        node = parse_where(where)
        assert node is not None
        return render_where(node).labels

    assert labels({"tags": "a", "importance": 3}) == '(exists(@.tags ? (@ == "a")))'
    assert (
        labels({"metadata.a.b": [1, None]})
        == 'exists(@.metadata."a"."b" ? (@ == 1)) || exists(@.metadata."a"."b" ? (@ == null))'
    )
    assert labels({"or": [{"tags": "a"}, {"tags": {"contains": "b"}}]}) is not None
    for operator, value in (("contains", "a"), ("gt", 1), ("exists", True)):
        assert labels({"metadata.k.l": {operator: value}}) == 'exists(@.keys ? (@ == "k"))'
    for operator, value in (("ne", 1), ("nin", [1]), ("exists", False)):
        assert labels({"metadata.k": {operator: value}}) is None
    for where in ({"or": [{"tags": "a"}, {"pinned": True}]}, {"not": {"tags": "a"}}, {"text": {"contains": "a"}}):
        assert labels(where) is None
