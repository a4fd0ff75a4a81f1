"""The categories that a query may search."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.loader import load_policies
from app.domain.categories import PROCEDURAL, Category, CategoryPolicy
from app.domain.errors import AgentNotAllowed, CategoryNotAllowed, InvalidInput, UnknownAgent, UnknownCategory
from app.domain.principal import Principal

NAMES = ("profile", "goals", "tasks", "tone", PROCEDURAL)
POLICY = CategoryPolicy(
    {name: Category(name) for name in NAMES},
    {"planner": ("tasks", "goals", PROCEDURAL), "stylist": ("tone",), "idle": ()},
)
FREE = Principal(UUID(int=1))


def bound(*agents: str) -> Principal:
    """Return the principal of a key bound to these agents."""
    return Principal(UUID(int=1), agents=frozenset(agents), categories=POLICY.visible_to(agents))


def test_none_requested_is_all_of_the_agents_less_procedural_in_configuration_order() -> None:
    assert POLICY.resolve_categories(FREE, "planner", [], None) == ["goals", "tasks"]
    assert POLICY.resolve_categories(FREE, "idle", [], None) == []


def test_a_search_covers_what_the_key_may_see_but_procedures() -> None:
    assert POLICY.searchable_by(FREE) == ["profile", "goals", "tasks", "tone"]
    assert POLICY.searchable_by(bound("planner")) == ["goals", "tasks"]
    assert POLICY.searchable_by(bound("planner", "stylist")) == ["goals", "tasks", "tone"]
    assert POLICY.searchable_by(bound("idle")) == []


def test_procedural_comes_only_when_it_is_named() -> None:
    assert POLICY.resolve_categories(FREE, "planner", [PROCEDURAL], None) == [PROCEDURAL]
    assert POLICY.resolve_categories(FREE, "planner", [], PROCEDURAL) == [PROCEDURAL]
    assert PROCEDURAL not in POLICY.resolve_categories(FREE, "planner", ["tasks"], None)


def test_procedural_is_answered_beside_others_that_are_named() -> None:
    assert POLICY.resolve_categories(FREE, "planner", [PROCEDURAL, "tasks"], None) == ["tasks", PROCEDURAL]
    assert POLICY.resolve_categories(FREE, "planner", [PROCEDURAL, "tasks"], "tasks") == ["tasks"]


def test_the_category_filter_narrows_what_is_requested() -> None:
    assert POLICY.resolve_categories(FREE, "planner", [], "tasks") == ["tasks"]
    assert POLICY.resolve_categories(FREE, "planner", ["goals", "tasks"], "tasks") == ["tasks"]
    assert POLICY.resolve_categories(FREE, "planner", ["goals"], "tasks") == []


@pytest.mark.parametrize(
    ("requested", "filtered", "refused"),
    [
        (["tone"], None, ["tone"]),
        (["tasks", "tone", "profile"], None, ["profile", "tone"]),
        ([], "tone", ["tone"]),
        (["nowhere"], "profile", ["nowhere", "profile"]),
    ],
)
def test_what_is_outside_the_allowlist_is_refused_by_name(
    requested: list[str], filtered: str | None, refused: list[str]
) -> None:
    with pytest.raises(CategoryNotAllowed, match=", ".join(refused)) as caught:
        POLICY.resolve_categories(FREE, "planner", requested, filtered)
    assert caught.value.extra == {"categories": refused}
    assert (caught.value.code, caught.value.status) == ("category_not_allowed", 403)


def test_an_agent_without_an_allowlist_is_unknown() -> None:
    with pytest.raises(UnknownAgent, match="writer"):
        POLICY.resolve_categories(FREE, "writer", [], None)


def test_a_bound_key_speaks_only_as_its_agents() -> None:
    assert POLICY.resolve_categories(bound("stylist"), "stylist", [], None) == ["tone"]
    with pytest.raises(AgentNotAllowed, match="planner"):
        POLICY.resolve_categories(bound("stylist"), "planner", [], None)
    with pytest.raises(AgentNotAllowed):  # not UnknownAgent: a key must not learn which agents exist
        POLICY.resolve_categories(bound("stylist"), "writer", [], None)


def test_a_key_of_two_agents_sees_both_but_each_answer_is_one_agents() -> None:
    both = bound("stylist", "planner")
    assert both.categories == {"tone", "tasks", "goals", PROCEDURAL}
    assert POLICY.resolve_categories(both, "stylist", [], None) == ["tone"]


@given(
    st.sampled_from(["planner", "stylist", "idle"]),
    st.lists(st.sampled_from(NAMES), max_size=6),
    st.none() | st.sampled_from(NAMES),
)
def test_an_answer_never_leaves_the_allowlist_nor_repeats(
    agent: str, requested: list[str], filtered: str | None
) -> None:
    allowed = set(POLICY.allowlists[agent])
    named = {*requested, *([filtered] if filtered else [])}
    if not named <= allowed:
        with pytest.raises(CategoryNotAllowed):
            POLICY.resolve_categories(FREE, agent, requested, filtered)
        return
    if filtered is None and PROCEDURAL in requested and len(set(requested)) > 1:
        with pytest.raises(InvalidInput):
            POLICY.resolve_categories(FREE, agent, requested, filtered)
        return
    chosen = POLICY.resolve_categories(FREE, agent, requested, filtered)
    assert set(chosen) <= allowed
    assert PROCEDURAL not in chosen or chosen == [PROCEDURAL]
    assert chosen == [name for name in NAMES if name in chosen]
    assert set(chosen) <= (set(requested) or allowed)
    assert filtered is None or set(chosen) <= {filtered}
    if PROCEDURAL in chosen:
        assert PROCEDURAL in named


def test_an_unknown_category_is_named() -> None:
    with pytest.raises(UnknownCategory, match="nowhere"):
        POLICY.get_category("nowhere")
    assert POLICY.get_category("tone").context == "rag"


def test_a_key_without_agents_requires_nothing() -> None:
    FREE.require_categories(NAMES)
    with pytest.raises(CategoryNotAllowed, match="goals, tasks"):
        bound("stylist").require_categories(["tone", "tasks", "goals"])
    assert FREE.category_list is None
    assert bound("planner").category_list == ["goals", PROCEDURAL, "tasks"]


def test_the_shipped_categories_are_the_seeds_and_the_two_additions() -> None:
    policy = load_policies("all-MiniLM-L6-v2").categories
    assert policy.get_category("profile").context == "all"
    assert [policy.get_category(name).rag_length for name in ("event", "activity", "goals")] == [30, 50, 30]
    everything = tuple(name for name in policy.categories if name != "procedural")
    assert policy.allowlists == {
        "assistant": everything,
        "supervisor": (
            *("profile", "goals", "preferences", "event", "activity", "relationships", "tasks"),
            "relationship_dynamic",
        ),
        "planner": ("goals", "tasks", "projects", "procedural"),
        "stylist": ("preferences", "tone", "style"),
        "researcher": ("knowledge", "interests", "history"),
        "executor": ("tasks", "recent_activity", "constraints", "procedural"),
    }
    assert {name for names in policy.allowlists.values() for name in names} <= set(policy.categories)
