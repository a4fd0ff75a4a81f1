"""The merges, links and reports of a daily consolidation."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.changes import Edge
from app.domain.consolidation.comparison import Pair, Rule, Verdict, judge_by_rule
from app.domain.consolidation.plan import MAX_DECISIONS, Plan, Report, count_duplicates, make_plan, plan_report
from app.domain.memory.memory import Memory
from app.domain.memory.merge_bands import same_fact
from tests.consolidation_cases import BANDS, NOW, NUMERIC, all_pairs, memories, memory, scored


def consolidated(memories: Iterable[Memory], plan: Plan) -> list[Memory]:
    """Return the memories that remain after the plan is carried out."""
    gone = {one.memory.id for merge in plan.merges for one in merge.absorbed}
    kept = {one.id: one for one in memories if one.id not in gone}
    for merge in plan.merges:
        kept[merge.survivor.id] = replace(
            merge.survivor,
            importance=merge.importance,
            pinned=merge.pinned,
            tags=merge.tags,
            created_at=merge.created_at,
            updated_at=NOW,
        )
    return list(kept.values())


def planned(*memories: Memory, numeric: Sequence[str] = (), score: float = 0.8) -> Plan:
    """Return the plan after the rule has checked all pairs."""
    return make_plan(judge_by_rule(all_pairs(memories, score), numeric), BANDS, numeric)


def test_a_merge_takes_the_best_of_all() -> None:
    old = memory(1, "Keeps bees", age=9, importance=4, tags=("farm", "hobby"))
    new = memory(2, "The user keeps bees, goats and hens", age=2, pinned=True, tags=("goats", "farm"))
    twin = memory(3, "The user keeps bees.", age=5, importance=1)
    [merge] = planned(old, new, twin).merges
    assert merge.survivor == new, "the fullest text"
    assert [(one.memory, one.rule, one.score) for one in merge.absorbed] == [
        (old, "contains", 0.8),
        (twin, "contains", 0.8),
    ]
    assert (merge.importance, merge.pinned, merge.created_at) == (4, True, old.created_at)
    assert merge.tags == ("goats", "farm", "hobby")


def test_of_equally_full_texts_the_older_survives() -> None:
    new, old = memory(1, "The user keeps bees", age=1), memory(2, "Keeps bees", age=8)
    [merge] = planned(new, old).merges
    assert (merge.survivor, [one.memory for one in merge.absorbed]) == (old, [new])


def test_no_chain_drifts_from_fact_to_fact() -> None:
    a, b, c = (
        memory(1, "The user likes tea, milk and wine"),
        memory(2, "Likes tea"),
        memory(3, "Likes tea, rum and beer", age=5),
    )
    plan = planned(a, b, c)
    [merge] = plan.merges
    assert merge.survivor == c, "the older of the two fullest"
    assert [one.memory for one in merge.absorbed] == [b]
    assert plan.links == (Edge(a.id, c.id, "profile", 0.8),), "two facts that stay two are related"


def test_an_unchecked_pair_of_a_group_is_judged_by_the_rule() -> None:
    a, b = memory(1, "Ana's bees are gentle", age=9), memory(2, "The bees of Ana sting nobody", age=8)
    c, d = memory(3, "Ana has gentle bees", age=7), memory(4, "Ana's bees are gentle!", age=6)
    verdicts = [Verdict(Pair(a, b, 0.7), "model"), Verdict(Pair(b, c, 0.7), "model"), Verdict(Pair(b, d, 0.6), "model")]
    plan = make_plan(verdicts, BANDS)
    [merge] = plan.merges
    assert merge.survivor == b, "it says more than the others"
    plan = make_plan([replace(one, pair=replace(one.pair, score=0.6)) for one in verdicts[:2]], BANDS)
    assert {one.memory.id for one in plan.merges[0].absorbed} == {a.id, c.id}
    far = [Verdict(Pair(a, c, 0.7), "model"), Verdict(Pair(c, d, 0.7), "model")]
    [merge] = make_plan(far, BANDS).merges
    assert merge.survivor == a
    assert [(one.memory, one.rule, one.score) for one in merge.absorbed] == [(c, "model", 0.7), (d, "same_words", None)]


def test_a_verdict_of_two_facts_is_stronger_than_the_rule() -> None:
    a, b, c = memory(1, "Keeps bees", age=9), memory(2, "The user keeps bees", age=8), memory(3, "Bees and hives")
    verdicts = [Verdict(Pair(a, b, 0.9), None), Verdict(Pair(a, c, 0.8), "model"), Verdict(Pair(b, c, 0.8), "model")]
    plan = make_plan(verdicts, BANDS)
    assert [(merge.survivor, merge.absorbed[0].memory) for merge in plan.merges] == [(a, c)]
    assert plan.links == (Edge(b.id, a.id, "profile", 0.9),)


def test_what_somebody_took_apart_ends_in_no_merge_not_even_by_way_of_a_third() -> None:
    bees, twin, third = (
        memory(1, "Keeps bees", age=9),
        memory(2, "The user keeps bees", age=8),
        memory(3, "keeps bees!"),
    )
    verdicts = judge_by_rule([Pair(bees, third, 0.9), Pair(third, twin, 0.9)])
    assert [len(merge.absorbed) for merge in make_plan(verdicts, BANDS).merges] == [2]
    plan = make_plan(verdicts, BANDS, (), {frozenset((bees.id, twin.id))})
    merged = [{merge.survivor.id, *(one.memory.id for one in merge.absorbed)} for merge in plan.merges]
    assert len(merged) == 1
    assert not {bees.id, twin.id} <= merged[0]


def test_the_later_value_stands() -> None:
    three, four = memory(1, "Runs 3 km", age=9, category="goals"), memory(2, "Runs 4 km", age=2, category="goals")
    again = memory(3, "The user runs 3 km", age=8, category="goals")
    [merge] = planned(three, four, again, numeric=NUMERIC).merges
    assert merge.survivor == four
    assert {one.rule for one in merge.absorbed} == {"numeric"}
    assert planned(three, four).merges == ()
    model = make_plan([Verdict(Pair(three, four, 0.7), "new_value")], BANDS)
    assert [merge.survivor for merge in model.merges] == [four]


@pytest.mark.parametrize("rule", ["numeric", "new_value"])
def test_nobody_knows_the_later_value_when_an_old_memory_was_touched(rule: Rule) -> None:
    touched = memory(1, "Runs 3 km", age=9, category="goals", updated_at=NOW)
    later = memory(2, "Runs 4 km", age=2, category="goals")
    plan = make_plan([Verdict(Pair(touched, later, 0.7), rule)], BANDS, NUMERIC)
    assert plan.merges == ()
    assert plan.links == (Edge(later.id, touched.id, "goals", 0.7),)


def test_links_run_from_the_newer_to_the_older_and_need_a_score() -> None:
    new, old = memory(1, "Has a hive", age=1), memory(2, "Has a goat", age=2)
    assert planned(new, old).links == planned(old, new).links == (Edge(new.id, old.id, "profile", 0.8),)
    assert planned(new, old, score=0.5).links != ()
    assert planned(new, old, score=0.49).links == ()
    assert planned(new, old, score=1.0000001).links[0].strength == 1.0


def test_a_link_of_an_absorbed_memory_goes_to_its_survivor() -> None:
    old, twin, other = memory(1, "Keeps bees", age=9), memory(2, "The user keeps bees"), memory(3, "Has hives", age=5)
    verdicts = [
        Verdict(Pair(old, twin, 0.9), "same_words"),
        Verdict(Pair(twin, other, 0.7), None),
        Verdict(Pair(other, old, 0.6), None),
    ]
    assert make_plan(verdicts, BANDS).links == (Edge(other.id, old.id, "profile", 0.7),)


def test_a_report_tells_counts_and_when_dry_every_decision() -> None:
    bees, twin = memory(1, "Keeps bees", age=9), memory(2, "The user keeps bees")
    goats, hive = memory(3, "Keeps goats"), memory(4, "Hive")
    verdicts = judge_by_rule([Pair(bees, twin, 0.9), Pair(bees, goats, 0.612345), Pair(goats, hive, 0.4)])
    plan = make_plan(verdicts, BANDS)
    wet = plan_report(plan, pairs_seen=7, tokens=120)
    counts = Report(7, 3, merged=1, linked=1, tokens=120)
    assert replace(wet, decisions=()) == counts
    assert [(one["action"], one["ids"]) for one in wet.as_json()["decisions"]] == [
        ("merge", [str(bees.id), str(twin.id)]),
        ("link", [str(bees.id), str(goats.id)]),
    ]
    assert not {"texts", "user_id"} & wet.as_json()["decisions"][0].keys()
    dry = plan_report(plan, pairs_seen=7, dry_run=True).as_json()
    assert json.loads(json.dumps(dry)) == dry
    assert [(one["action"], one["rule"], one["score"]) for one in dry["decisions"]] == [
        ("merge", "same_words", 0.9),
        ("link", None, 0.6123),
        ("keep", None, 0.4),
    ]
    assert dry["decisions"][0] | {"action": "merge"} == {
        "user_id": "ana",
        "category": "profile",
        "ids": [str(bees.id), str(twin.id)],
        "texts": ["Keeps bees", "The user keeps bees"],
        "score": 0.9,
        "rule": "same_words",
        "action": "merge",
    }


def test_duplicates_are_counted_by_nearness_whatever_the_verdicts_are() -> None:
    one, two, three, far = (memory(number, f"Bees {number}") for number in range(1, 5))
    pairs = [Pair(one, two, 0.9), Pair(two, three, 0.86), Pair(one, three, 0.85), Pair(three, far, 0.84)]
    assert count_duplicates(pairs, BANDS) == 2
    assert count_duplicates(pairs, BANDS, {two.id}) == 1
    assert count_duplicates(pairs, BANDS, {one.id, two.id}) == 0


def test_reports_of_several_users_add_up() -> None:
    plan = planned(memory(1, "Keeps bees"), memory(2, "The user keeps bees"))
    one = plan_report(plan, pairs_seen=1, tokens=5, dry_run=True)
    both = one + one
    assert (both.pairs_seen, both.tokens, both.merged) == (2, 10, 2)
    assert len(both.decisions) == 2
    assert sum([one, one], Report()) == both


def test_a_report_lists_only_so_many_decisions() -> None:
    one = plan_report(planned(memory(1, "Keeps bees"), memory(2, "The user keeps bees")), pairs_seen=1)
    many = sum([one] * (MAX_DECISIONS + 1), Report())
    assert (many.merged, len(many.decisions)) == (MAX_DECISIONS + 1, MAX_DECISIONS)


RULES: st.SearchStrategy[Rule | None] = st.sampled_from([None, "same_words", "contains", "model", "new_value"])


@settings(deadline=None)
@given(scored(), st.data(), st.randoms())
def test_plans_whatever_the_verdicts(pairs: list[Pair], data: st.DataObject, random: Any) -> None:
    inside = [
        one for one in pairs if one.first.user_id == one.second.user_id and one.first.category == one.second.category
    ]
    verdicts = [Verdict(pair, data.draw(RULES)) for pair in inside]
    plan = make_plan(verdicts, BANDS)
    said = {verdict.pair.ids: verdict.rule for verdict in verdicts}
    taking_part = [
        one.id for merge in plan.merges for one in (merge.survivor, *(absorbed.memory for absorbed in merge.absorbed))
    ]
    assert len(taking_part) == len(set(taking_part))
    for merge in plan.merges:
        assert merge.absorbed
        assert all(said[frozenset((merge.survivor.id, one.memory.id))] == one.rule for one in merge.absorbed)
        everyone = [merge.survivor, *(one.memory for one in merge.absorbed)]
        assert merge.created_at == min(one.created_at for one in everyone)
        assert (merge.importance, merge.pinned) == (
            max(one.importance for one in everyone),
            any(one.pinned for one in everyone),
        )
        assert set(merge.tags) == {tag for one in everyone for tag in one.tags}
        assert len(merge.tags) == len(set(merge.tags))
    gone = {one.memory.id for merge in plan.merges for one in merge.absorbed}
    ends = [frozenset((edge.from_id, edge.to_id)) for edge in plan.links]
    assert len(ends) == len(set(ends))
    assert all(len(two) == 2 and two.isdisjoint(gone) for two in ends)
    assert all(BANDS.link_min <= edge.strength <= 1 for edge in plan.links)
    figures = plan_report(plan, pairs_seen=len(pairs), dry_run=True)
    assert len(figures.decisions) == figures.checked == len(verdicts)
    random.shuffle(verdicts)
    assert (
        make_plan(
            [replace(one, pair=Pair(one.pair.second, one.pair.first, one.pair.score)) for one in verdicts], BANDS
        ).merges
        == plan.merges
    )


@settings(deadline=None)
@given(memories(), st.booleans())
def test_a_plan_carried_out_leaves_nothing_to_merge(some: list[Memory], numeric: bool) -> None:
    categories = NUMERIC if numeric else ()
    plan = planned(*some, numeric=categories)
    left = consolidated(some, plan)
    assert len(left) == len(some) - plan_report(plan, pairs_seen=0).merged
    kept = {one.id: one.text for one in some}
    assert all(one.text == kept[one.id] for one in left)
    assert numeric or planned(*left).merges == ()


@settings(deadline=None)
@given(memories())
def test_rule_merges_are_one_fact(some: list[Memory]) -> None:
    for merge in planned(*some, numeric=NUMERIC).merges:
        for one in merge.absorbed:
            numeric = merge.survivor.category in NUMERIC
            assert same_fact(merge.survivor.text, one.memory.text, numeric_update=numeric) == one.rule
            assert one.rule != "numeric" or merge.survivor.created_at > one.memory.created_at
