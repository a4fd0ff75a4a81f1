"""mem0's filters: which memories they select, and where the database looks for them."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.mem0.filters import Scope, read_filters
from app.api.mem0.identities import Identities, identities_of, split_stand_in
from app.domain.errors import InvalidInput
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.principal import Principal

MAY, JUNE = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)


def memory(user: str = "alex", **fields: Any) -> Memory:
    values = {"category": "preferences", "text": "Alex eats plants.", "metadata": {"food": "vegan", "level": 3}}
    values |= {"type": MemoryType.semantic, "importance": 2, "pinned": False, "tags": (), "version": 1}
    values |= {"state": MemoryState.active, "created_at": MAY, "updated_at": JUNE}
    return Memory(id=uuid4(), user_id=user, **values | fields)


@pytest.mark.parametrize(
    ("condition", "matches"),
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
def test_a_condition_selects_by_what_the_memory_has(condition: dict[str, Any], matches: bool) -> None:
    stored = memory(agent_id="tutor", thread_id="trip", tags=("app:school",))
    selection = read_filters({"AND": [{"user_id": "alex"}, *([condition] if condition else [])]}, Identities())
    assert selection.test(stored) is matches
    assert not selection.test(memory("ben", agent_id="tutor", thread_id="trip", tags=("app:school",)))


def test_ids_and_categories_narrow_the_search_and_nothing_else_does() -> None:
    ids = {"OR": [{"user_id": "alex", "run_id": "trip"}, {"agent_id": {"in": ["a", "b"]}}]}
    selection = read_filters({"AND": [ids, {"categories": ["tasks"]}]}, Identities())
    assert [scope.ids for scope in selection.scopes] == [
        Identities("alex", run_id="trip"),
        Identities(agent_id="a"),
        Identities(agent_id="b"),
    ]
    assert {scope.categories for scope in selection.scopes} == {frozenset({"tasks"})}
    assert selection.exact
    assert not read_filters({"user_id": "alex", "keywords": {"contains": "x"}}, Identities()).exact
    assert not read_filters({"user_id": "alex", "agent_id": "*"}, Identities()).exact
    assert read_filters({"user_id": "alex"}, Identities("ben")).scopes == ()


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
        ({"user_id": {"in": [str(n) for n in range(11)]}}, "at most 10 ids"),
        ({"OR": [{"user_id": str(n)} for n in range(11)]}, "at most 10 combinations of ids"),
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
def test_any_json_is_a_filter_or_refused_and_its_scopes_hold_what_it_selects(node: Any) -> None:
    try:
        selection = read_filters({"user_id": "alex", "AND": [node]}, Identities())
    except InvalidInput:
        return
    for stored in (memory(), memory("ben")):
        inside = any(scope.ids.user_id in (None, stored.user_id) for scope in selection.scopes)
        assert inside or not selection.test(stored)
    assert not selection.test(memory("ben"))


def test_a_key_bound_to_agents_searches_only_its_own_categories() -> None:
    bound = Principal(uuid4(), categories=frozenset({"tasks", "goals"}))
    narrowed = Scope(categories=frozenset({"tasks", "profile"})).narrow(bound)
    assert narrowed is not None
    assert narrowed.categories == frozenset({"tasks"})
    assert Scope(categories=frozenset({"profile"})).narrow(bound) is None
    assert Scope().narrow(bound) is bound


@pytest.mark.parametrize(
    ("ids", "owner", "entity"),
    [
        (Identities("alex", "tutor"), "alex", ("user", "alex")),
        (Identities(None, "tutor", "school", "trip"), "agent:tutor", ("agent", "tutor")),
        (Identities(None, None, "school", "trip"), "run:trip", ("run", "trip")),
        (Identities(app_id="school"), "app:school", ("app", "school")),
        (Identities("team:blue"), "team:blue", ("user", "team:blue")),
    ],
)
def test_a_memory_without_a_user_has_a_stand_in_that_no_client_sees(
    ids: Identities, owner: str, entity: tuple[str, str]
) -> None:
    assert ids.owner == owner
    assert split_stand_in(owner) == entity
    stored = memory(owner, agent_id=ids.agent_id, thread_id=ids.run_id, tags=ids.tags)
    assert identities_of(stored) == ids


def test_a_memory_needs_an_id_and_a_stand_in_that_fits() -> None:
    with pytest.raises(InvalidInput, match="name at least one of"):
        _ = Identities().owner
    with pytest.raises(InvalidInput, match="an identifier has"):
        _ = Identities(agent_id="a" * 200).owner
