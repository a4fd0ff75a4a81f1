"""mem0's filters: which memories they select, and where the database looks for them."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.mem0.filters import read_filters
from app.api.mem0.identities import Identities
from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from tests.where_trees import as_json, matches

MAY, JUNE = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)


def memory(user: str = "alex", **fields: Any) -> Memory:
    values = {"category": "preferences", "text": "Alex eats plants.", "metadata": {"food": "vegan", "level": 3}}
    values |= {"type": MemoryType.semantic, "importance": 2, "pinned": False, "tags": (), "version": 1}
    values |= {"state": MemoryState.active, "created_at": MAY, "updated_at": JUNE}
    return Memory(id=uuid4(), user_id=user, **values | fields)


def selects(filters: Filters, stored: Memory) -> bool:
    """Return whether the filters select a memory, which a plain evaluation decides."""
    assert filters.where is not None
    return matches(as_json(filters.where), {name: getattr(stored, name) for name in Memory.__dataclass_fields__})


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ({}, True),
        ({"user_id": {"eq": "alex"}}, True),
        ({"user_id": {"in": ["ben", "alex"]}}, True),
        ({"user_id": ["ben", "alex"]}, True),
        ({"agent_id": "*"}, True),
        ({"agent_id": "tutor"}, True),
        ({"agent_id": {"ne": "tutor"}}, False),
        ({"agent_id": {"nin": ["planner"]}}, True),
        ({"app_id": "school"}, True),
        ({"app_id": "*"}, True),
        ({"run_id": "trip"}, True),
        ({"run_id": "other"}, False),
        ({"categories": {"in": ["preferences"]}}, True),
        ({"categories": ["tasks"]}, False),
        ({"categories": {"contains": "prefer"}}, True),
        ({"created_at": {"gte": "2026-05-01", "lt": "2026-05-02"}}, True),
        ({"created_at": {"gt": "2026-05-01T00:00:00Z"}}, False),
        ({"timestamp": {"lte": "2026-04-30"}}, False),
        ({"updated_at": {"gte": "2026-06-01"}}, True),
        ({"keywords": {"icontains": "PLANTS"}}, True),
        ({"text": {"contains": "PLANTS"}}, False),
        ({"metadata": {"food": "vegan"}}, True),
        ({"metadata": {"food": "meat"}}, False),
        ({"metadata": {"nosuch": "x"}}, False),
        ({"metadata": {"level": {"gte": 3}}}, True),
        ({"metadata": {"level": {"gt": "three"}}}, False),
        ({"metadata": {"contains": {"food": "vegan"}}}, True),
        ({"metadata": {"ne": {"food": "vegan"}}}, False),
        ({"NOT": [{"categories": ["tasks"]}]}, True),
        ({"NOT": [{"run_id": "trip"}]}, False),
        ({"OR": [{"run_id": "other"}, {"keywords": {"contains": "plants"}}]}, True),
        ({"AND": [{"OR": [{"run_id": "trip"}, {"run_id": "other"}]}, {"NOT": [{"app_id": "work"}]}]}, True),
    ],
)
def test_a_condition_selects_by_what_the_memory_has(condition: dict[str, Any], wanted: bool) -> None:
    stored = memory(agent_id="tutor", thread_id="trip", tags=("app:school",))
    filters = read_filters({"AND": [{"user_id": "alex"}, *([condition] if condition else [])]}, Identities())
    assert selects(filters, stored) is wanted
    assert filters.user_id == "alex" or "user_id" in condition
    assert not selects(filters, memory("ben", agent_id="tutor", thread_id="trip", tags=("app:school",)))


def test_the_only_user_of_all_that_matches_is_searched_alone() -> None:
    assert read_filters({"AND": [{"user_id": "alex"}, {"text": "x"}]}, Identities()).user_id == "alex"
    assert read_filters({"OR": [{"user_id": "alex"}, {"agent_id": "a"}]}, Identities()).user_id is None
    assert read_filters({"user_id": "alex"}, Identities("ben")).user_id is None
    assert not selects(read_filters({"user_id": "alex"}, Identities("ben")), memory())


def test_any_id_is_neither_a_stand_in_nor_a_default() -> None:
    anybody = read_filters({"user_id": "*"}, Identities())
    assert selects(anybody, memory())
    assert not selects(anybody, memory("agent:tutor", agent_id="tutor"))
    any_run = read_filters({"run_id": "*"}, Identities())
    assert selects(any_run, memory(thread_id="trip"))
    assert not selects(any_run, memory(thread_id="mem0"))
    assert not selects(any_run, memory())


@pytest.mark.parametrize(
    ("filters", "detail"),
    [
        ({}, "name at least one of: user_id"),
        ({"categories": ["tasks"]}, "name at least one of: user_id"),
        ({"NOT": [{"user_id": "alex"}]}, "name at least one of: user_id"),
        ({"OR": [{"user_id": "alex"}, {"text": "x"}]}, "name at least one of: user_id"),
        ({"userid": "alex"}, "filters.userid: unknown field; did you mean 'user_id'?"),
        ({"zzz": 1}, "filters.zzz: unknown field; these fields exist: user_id"),
        ({"user_id": {"like": "al"}}, "filters.user_id: 'like': operators are: contains"),
        ({"user_id": {}}, "filters.user_id: 'no operator': operators are"),
        ({"user_id": 7}, "filters.user_id: expected a text"),
        ({"user_id": ""}, "an identifier has 1 to 200"),
        ({"user_id": "alex", "NOT": [{"text": {"icontains": "x"}}] * 100}, "101 values; at most 100"),
        ({"user_id": []}, "in takes a list of values"),
        ({"user_id": {"in": "alex"}}, "in takes a list"),
        ({"created_at": {"gte": "soon"}}, "filters.created_at: expected an ISO 8601 date or time"),
        ({"AND": {"user_id": "alex"}}, "filters.AND: expected a list of conditions"),
        ({"AND": ["alex"]}, "filters.AND: expected an object"),
        ({"OR": []}, "filters.OR: expected a list of conditions"),
        ({"metadata": "vegan"}, "filters.metadata: expected an object"),
    ],
)
def test_what_is_no_filter_is_refused_with_its_place(filters: dict[str, Any], detail: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_filters(filters, Identities())
    assert detail in refused.value.detail


NODES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["alex", "*", "2026-05-01"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["AND", "OR", "NOT", "user_id", "metadata", "created_at", "in", "gte", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@pytest.mark.long
@given(NODES)
def test_any_json_is_a_filter_of_the_user_or_refused(node: Any) -> None:
    try:
        filters = read_filters({"user_id": "alex", "AND": [node]}, Identities())
    except InvalidInput:
        return
    selects(filters, memory())
    assert not selects(filters, memory("ben"))
