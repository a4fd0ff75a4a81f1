"""Consolidation without a model on labelled memories: its merges, its misses, and never a false merge."""

from collections import Counter
from datetime import datetime
from itertools import combinations, groupby

import pytest

from app.config.loader import load_categories
from app.config.yaml_files import CONFIG_DIR
from app.domain.consolidation.comparison import (
    ConsolidationPolicy,
    Fingerprint,
    Pair,
    comparison_pool,
    judge_by_rule,
    select_pairs_to_check,
)
from app.domain.consolidation.plan import Report, make_plan, plan_report
from app.domain.memory.memory import Memory
from app.domain.memory.merge_bands import MergeBands, same_fact
from app.domain.text_rules import text_key
from bench.calibrate_merge import load_pairs
from tests.consolidation_corpus import NOW, Corpus, load_corpus

POLICY = ConsolidationPolicy()
BANDS = MergeBands()


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """The labelled memories."""
    return load_corpus()


def _users(corpus: Corpus) -> list[list[Memory]]:
    ordered = sorted(corpus.memories, key=lambda one: (one.user_id, one.id))
    return [list(group) for _, group in groupby(ordered, key=lambda one: one.user_id)]


def _pairs(memories: list[Memory]) -> list[Pair]:
    """Return all pairs of one category that are similar enough to be checked."""
    return [Pair(a, b, 0.8) for a, b in combinations(memories, 2) if a.category == b.category]


def test_the_corpus_is_large_varied_and_of_our_own(corpus: Corpus) -> None:
    assert len(corpus.memories) >= 320
    assert len(corpus.duplicates) >= 70
    assert len(corpus.different) >= 70
    assert len(corpus.decidable) >= 40
    assert len({one.user_id for one in corpus.memories}) >= 5
    categories = {one.category for one in corpus.memories}
    assert len(categories) >= 10
    assert categories <= set(load_categories(CONFIG_DIR / "memory_cat_config.yaml", 30).categories)
    assert len({pair.kind for pair in corpus.duplicates}) >= 10
    assert len({pair.kind for pair in corpus.different}) >= 8
    theirs = {text_key(text) for pair in load_pairs() for text in (pair.a, pair.b)}
    assert theirs.isdisjoint(text_key(one.text) for one in corpus.memories)


def test_the_corpus_can_be_stored(corpus: Corpus) -> None:
    keys = Counter((one.user_id, one.category, text_key(one.text)) for one in corpus.memories)
    assert max(keys.values()) == 1, "no two active memories of a category may say the same"
    assert max(len(one.text) for one in corpus.memories) <= 280
    assert len({one.id for one in corpus.memories}) == len(corpus.memories)


def test_labels_are_of_one_user_and_category_and_hold_together(corpus: Corpus) -> None:
    assert len({pair.ids for pair in corpus.pairs}) == len(corpus.pairs)
    for pair in corpus.pairs:
        assert (pair.first.user_id, pair.first.category) == (pair.second.user_id, pair.second.category)
    known = {pair.ids for pair in corpus.duplicates}
    for one, other in combinations(known, 2):
        assert not one & other or one ^ other in known, "one fact with the same fact is one fact"


def test_no_two_facts_become_one(corpus: Corpus) -> None:
    """Judge all pairs of a category, across users. A pair without a label is two facts."""
    known = {pair.ids for pair in corpus.duplicates}
    false = [
        (a.text, b.text)
        for a, b in combinations(corpus.memories, 2)
        if a.category == b.category
        and same_fact(a.text, b.text, numeric_update=False)
        and frozenset((a.id, b.id)) not in known
    ]
    assert false == []


def test_what_needs_no_model_is_found(corpus: Corpus) -> None:
    pairs = [Pair(pair.first, pair.second, 0.8) for pair in corpus.decidable]
    everybody = {one.id for one in corpus.memories}
    free = ConsolidationPolicy(pairs_per_user_day=1000)
    checked = select_pairs_to_check(pairs, everybody, {}, free, BANDS, NOW).pairs
    merged = make_plan(judge_by_rule(checked), BANDS).merges
    recall = sum(len(merge.absorbed) for merge in merged) / len(pairs)
    print(f"recall {recall:.0%} of {len(pairs)} decidable duplicates")
    assert recall >= 0.85


def test_runs_day_by_day_until_nothing_is_left(corpus: Corpus) -> None:
    """Run day after day: each checks at most 50 pairs a user. At the end only pairs that need a model remain."""
    known = {pair.ids for pair in corpus.duplicates}
    total = Report()
    for memories in _users(corpus):
        pairs = _pairs(memories)
        everybody = {one.id for one in memories}
        checked: dict[Fingerprint, datetime] = {}
        while found := select_pairs_to_check(pairs, everybody, checked, POLICY, BANDS, NOW).pairs:
            assert len(found) <= POLICY.pairs_per_user_day
            plan = make_plan(judge_by_rule(found), BANDS)
            for merge in plan.merges:
                assert all(frozenset((merge.survivor.id, one.memory.id)) in known for one in merge.absorbed)
            gone = {one.memory.id for merge in plan.merges for one in merge.absorbed}
            total += plan_report(plan, pairs_seen=len(pairs))
            checked |= dict.fromkeys((pair.fingerprint for pair in found), NOW)
            pairs = [pair for pair in pairs if pair.ids.isdisjoint(gone)]
    assert total.merged >= 0.85 * len(corpus.decidable)
    assert total.merged <= len(corpus.decidable)


def test_the_pool_is_a_part_of_the_corpus(corpus: Corpus) -> None:
    for memories in _users(corpus):
        members = comparison_pool(memories, POLICY, NOW)
        assert 0 < len(members) < len(memories)
        assert {one.id for one in memories if one.importance >= 3} <= members
