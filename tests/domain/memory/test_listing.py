"""Cursors and metadata of lists of memories."""

import contextlib
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import InvalidCursor, InvalidInput
from app.domain.filters import Filters
from app.domain.memory.listing import MemoryListing, OrderName, SortName, parse_metadata
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.where.parsing import parse_where

sorts = st.sampled_from(SortName.__args__)
orders = st.sampled_from(OrderName.__args__)
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def memory(created_at: datetime, updated_at: datetime, importance: int, id_: UUID) -> Memory:
    return Memory(
        id=id_,
        user_id="maya",
        category="tasks",
        text="Maya books the venue.",
        type=MemoryType.semantic,
        importance=importance,
        pinned=False,
        tags=(),
        state=MemoryState.active,
        version=1,
        created_at=created_at,
        updated_at=updated_at,
    )


@given(sorts, orders, moments, moments, st.integers(1, 5), st.uuids())
def test_a_cursor_leads_to_its_row(
    sort: Any, order: Any, created_at: datetime, updated_at: datetime, importance: int, id_: UUID
) -> None:
    listing = MemoryListing(sort=sort, order=order)
    place = listing.decode_position(listing.encode_position(memory(created_at, updated_at, importance, id_)))
    assert place is not None
    assert place["id"] == str(id_)
    times = {"created_at": created_at.isoformat(), "updated_at": updated_at.isoformat()}
    assert place["value"] == times.get(sort, str(importance))
    if sort == "importance":
        assert place["created_at"] == created_at.isoformat()


@given(sorts, orders, st.text(max_size=300))
def test_any_text_is_a_cursor_or_refused(sort: Any, order: Any, cursor: str) -> None:
    with contextlib.suppress(InvalidCursor):
        assert MemoryListing(sort=sort, order=order).decode_position(cursor) is not None


@given(st.text(max_size=100), st.text(max_size=100))
def test_a_pair_matches_its_text_and_at_most_one_other_form(key: str, value: str) -> None:
    if not key or ":" in key:
        return
    leaf = parse_metadata(f"{key}:{value}")
    assert (leaf.keys, leaf.values[0]) == ((key,), value)
    assert len(leaf.values) <= 2


def test_numbers_and_words_have_a_second_form() -> None:
    assert parse_metadata("n:-3").values == ("-3", -3)
    assert parse_metadata("n:0.5").values == ("0.5", 0.5)
    assert parse_metadata("n:null").values == ("null", None)
    for value in ("1e9", "1" * 16, "NaN", "٣", "", "True"):
        assert parse_metadata(f"n:{value}").values == (value,)


@pytest.mark.parametrize("pair", ["", ":", ":value", "key"])
def test_a_pair_without_key_or_colon_is_refused(pair: str) -> None:
    with pytest.raises(InvalidInput):
        parse_metadata(pair)


def test_categories_stay_within_those_of_the_key() -> None:
    listing = MemoryListing(categories=("tasks", "goals"))
    assert listing.narrow_categories(None) == ["goals", "tasks"]
    assert listing.narrow_categories(["tasks"]) == ["tasks"]
    assert listing.narrow_categories([]) == []
    assert MemoryListing().narrow_categories(["tasks"]) == ["tasks"]
    assert MemoryListing().narrow_categories(None) is None


def test_a_list_names_what_indexes_find() -> None:
    conditions = {"role": {"in": ["user", "tool"]}, "expires_at": {"gte": "2026-01-01"}, "actor_id": {"ne": "b"}}
    filters = Filters(language="de", tag="home", where=parse_where(conditions))
    found = MemoryListing(filters, types=("turn",)).order_conditions(None)
    assert found == {
        "state": "active",
        "sort": "created_at",
        "ascending": False,
        "equal": {"type": ["turn"], "language": ["de"], "role": ["user", "tool"]},
        "tags": ["home"],
        "expires": ["2026-01-01T00:00:00+00:00", "infinity"],
    }


def test_one_of_several_conditions_is_named_by_no_index() -> None:
    where = parse_where({"or": [{"role": "user"}, {"tags": {"contains": "home"}}]})
    found = MemoryListing(Filters(where=where)).id_conditions(None)
    assert found == {"state": "active", "sort": "id", "ascending": True}
