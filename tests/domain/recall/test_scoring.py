"""Signals, fusion and selection, with the formula of the profile reranked."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.loader import load_policies
from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.profiles import RankingProfile, RankingQuery
from app.domain.recall.scoring import ScoredCandidate, candidate_relevance, score_candidates
from app.domain.recall.selection import cap_categories, keep_relevant, keep_similar, select_best
from tests.domain.candidates import NOW, candidate

SHIPPED = load_policies("all-MiniLM-L6-v2").profiles
SEED = SHIPPED["reranked"]
SHARES = st.floats(0, 1, width=32)
AGES = st.floats(0, 3650)


def unit(seed: int) -> np.ndarray:
    """Return a random unit vector of few dimensions, so that some are close to each other."""
    vector = np.random.default_rng(seed).standard_normal(4)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


@st.composite
def candidates(draw: st.DrawFn, min_size: int = 0) -> list[Candidate]:
    """Generate candidates as storage returns them: some without a vector, some without a lexical match."""
    numbers = draw(st.lists(st.integers(1, 10_000), min_size=min_size, max_size=25, unique=True))
    kinds = st.sampled_from([MemoryType.semantic, MemoryType.insight, MemoryType.turn])
    return [
        candidate(
            number,
            draw(AGES),
            draw(st.sampled_from(["event", "tasks", "goals"])),
            draw(st.integers(1, 5)),
            pinned=draw(st.booleans()),
            type=draw(kinds),
            similarity=draw(st.none() | st.floats(-1, 1, width=32)),
            lexical=draw(st.none() | SHARES),
            strength=draw(SHARES),
            thread_id=draw(st.sampled_from([None, "here", "there"])),
            embedding=draw(st.none() | st.integers(0, 50).map(unit)),
        )
        for number in numbers
    ]


PROFILES = st.sampled_from(list(SHIPPED.values())) | st.builds(
    RankingProfile,
    name=st.just("any"),
    fusion=st.sampled_from(["zscore", "sigmoid"]),
    dense=SHARES,
    lexical=SHARES,
    importance=SHARES,
    pinned=SHARES,
    recency=SHARES,
    relation=SHARES,
    insight=st.floats(-1, 1),
    thread=SHARES,
)
ASKED = st.sampled_from([RankingQuery(), RankingQuery(thread_id="here"), RankingQuery(thread_id="nowhere")])


@given(candidates(), PROFILES, ASKED)
def test_the_parts_add_up_to_the_total_and_nobody_is_lost(
    found: list[Candidate], profile: RankingProfile, asked: RankingQuery
) -> None:
    scored = score_candidates(found, profile, NOW, asked)
    assert {s.candidate.id for s in scored} == {c.id for c in found}
    for s in scored:
        assert s.total == pytest.approx(sum(s.parts.values()), abs=1e-12)
        assert math.isfinite(s.total)
        assert set(s.parts) <= {
            *("dense", "lexical", "relevance", "session"),
            *("recency", "importance", "pinned", "relation", "insight", "thread"),
        }
    assert [s.total for s in scored] == sorted((s.total for s in scored), reverse=True)


@given(candidates(), PROFILES, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_the_candidates(
    found: list[Candidate], profile: RankingProfile, random: object
) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert [s.candidate.id for s in score_candidates(found, profile, NOW)] == [
        s.candidate.id for s in score_candidates(shuffled, profile, NOW)
    ]


@given(st.lists(st.integers(1, 999), min_size=2, unique=True), st.floats(-1, 1), PROFILES)
def test_equals_are_ordered_by_id(numbers: list[int], similarity: float, profile: RankingProfile) -> None:
    found = [candidate(number, similarity=similarity, lexical=0.1) for number in numbers]
    assert [s.candidate.id.int for s in score_candidates(found, profile, NOW)] == sorted(numbers)


@given(st.floats(0.001, 0.999), AGES)
def test_the_formula_of_seed_002(similarity: float, age_days: float) -> None:
    rerank = math.log(similarity / (1 - similarity))
    sigmoid = 1 / (1 + math.exp(-rerank))
    [scored] = score_candidates([candidate(1, age_days, similarity=similarity)], SEED, NOW)
    age = (NOW - scored.candidate.updated_at) / timedelta(days=1)
    assert scored.total == pytest.approx(0.8 * sigmoid + 0.2 * math.exp(-age / 30.0), abs=1e-9)
    assert scored.parts["relevance"] == pytest.approx(0.8 * sigmoid, abs=1e-9)


def test_the_numbers_of_seed_002() -> None:
    assert (SEED.fusion, SEED.recency, SEED.recency_days) == ("sigmoid", 0.2, 30)
    assert (SEED.score_threshold, SEED.mmr_lambda, SEED.pool) == (0.35, 0.7, 3)
    assert (SEED.importance, SEED.pinned, SEED.relation, SEED.insight) == (0, 0, 0, 0)


@given(AGES, AGES)
def test_recency_falls_with_age_and_never_leaves_zero_to_one(one: float, other: float) -> None:
    younger, older = sorted((one, other))
    profile = RankingProfile("plain", "zscore", recency=1.0, recency_days=30)
    scored = score_candidates([candidate(1, older), candidate(2, younger), candidate(3, -one)], profile, NOW)
    parts = {s.candidate.id.int: s.parts.get("recency", 0.0) for s in scored}
    assert 0 <= parts[1] <= parts[2] <= parts[3] == 1


@given(candidates(min_size=1), st.floats(-1, 1))
def test_the_threshold_drops_lower_similarities_and_nothing_without_one(found: list[Candidate], least: float) -> None:
    scored = score_candidates(found, SHIPPED["default"], NOW)
    kept, dropped = keep_similar(scored, least)
    assert [s for s in scored if s in kept] == kept
    assert len(kept) + len(dropped) == len(scored)
    assert all(s.candidate.similarity is None or s.candidate.similarity >= least for s in kept)
    assert all((d.scored.candidate.similarity or 0) < least and d.reason == "threshold" for d in dropped if least > 0)
    assert keep_similar(scored, None) == (scored, [])


@given(candidates())
def test_seed_002_drops_what_is_not_relevant(found: list[Candidate]) -> None:
    scored = score_candidates(found, SEED, NOW)
    kept, dropped = keep_relevant(scored, SEED)
    assert all(0 <= candidate_relevance(s.candidate, SEED) <= 1 for s in scored)
    assert all(candidate_relevance(s.candidate, SEED) >= 0.35 for s in kept)
    assert all(candidate_relevance(d.scored.candidate, SEED) < 0.35 and d.reason == "score_threshold" for d in dropped)
    assert len(kept) + len(dropped) == len(scored)
    assert keep_relevant(scored, SHIPPED["default"]) == (scored, [])


@given(candidates(), st.integers(1, 4), st.integers(1, 4))
def test_each_category_gives_at_most_its_rag_length_the_best_first(
    found: list[Candidate], events: int, tasks: int
) -> None:
    scored = score_candidates(found, SHIPPED["default"], NOW)
    kept, dropped = cap_categories(scored, {"event": events, "tasks": tasks})
    for category, most in (("event", events), ("tasks", tasks), ("goals", len(found))):
        of_it = [s for s in scored if s.candidate.category == category]
        assert [s for s in kept if s.candidate.category == category] == of_it[:most]
    assert kept == [s for s in scored if s in kept]
    assert {d.reason for d in dropped} <= {"rag_length"}
    assert len(kept) + len(dropped) == len(scored)


@given(candidates(), st.integers(1, 12))
def test_with_lambda_one_the_selection_is_the_plain_order(found: list[Candidate], top_k: int) -> None:
    scored = score_candidates(found, SHIPPED["default"], NOW)
    chosen, dropped = select_best(scored, top_k, replace(SEED, mmr_lambda=1.0))
    assert chosen == scored[:top_k]
    assert [d.scored for d in dropped] == scored[top_k:]
    assert {d.reason for d in dropped} <= {"rank"}


@given(candidates(), st.integers(1, 12), st.floats(0.05, 0.95))
def test_without_vectors_nothing_is_redundant_and_the_order_stays(
    found: list[Candidate], top_k: int, weight: float
) -> None:
    scored = score_candidates([c._replace(embedding=None) for c in found], SEED, NOW)
    distinct = [s for at, s in enumerate(scored) if at == 0 or scored[at - 1].total - s.total > 1e-9]
    chosen, _ = select_best(distinct, top_k, replace(SEED, mmr_lambda=weight))
    assert chosen == distinct[:top_k]


@pytest.mark.long
@given(candidates(min_size=1), st.integers(1, 8), st.floats(0.05, 0.95))
def test_the_selection_is_maximal_marginal_relevance(found: list[Candidate], top_k: int, weight: float) -> None:
    scored = score_candidates(found, SEED, NOW)
    chosen, dropped = select_best(scored, top_k, replace(SEED, mmr_lambda=weight))
    assert chosen[0] == scored[0]
    assert len(chosen) == min(top_k, len(scored))
    for at, pick in enumerate(chosen):
        left = [s for s in scored[: 3 * top_k] if s not in chosen[:at]]
        best = max(_marginal(s, chosen[:at], weight) for s in left)
        assert _marginal(pick, chosen[:at], weight) == pytest.approx(best, abs=1e-6)
    assert len(chosen) + len(dropped) == len(scored)
    assert all((d.scored in scored[:top_k]) == (d.reason == "diversity") for d in dropped)


def _marginal(scored: ScoredCandidate, chosen: Sequence[ScoredCandidate], weight: float) -> float:
    mine = scored.candidate.embedding
    others = [c.candidate.embedding for c in chosen if c.candidate.embedding is not None]
    redundancy = 0.0 if mine is None else max((float(mine @ other) for other in others), default=0.0)
    return weight * scored.total - (1 - weight) * redundancy


def test_a_repetition_gives_way_to_something_else() -> None:
    vectors = {1: (1.0, 0.0), 2: (1.0, 0.0), 3: (0.0, 1.0)}
    found = [
        candidate(number, similarity=similarity, embedding=np.array(vectors[number], np.float32))
        for number, similarity in ((1, 0.9), (2, 0.89), (3, 0.6))
    ]
    chosen, dropped = select_best(score_candidates(found, SEED, NOW), 2, SEED)
    assert [s.candidate.id.int for s in chosen] == [1, 3]
    assert [(d.scored.candidate.id.int, d.reason) for d in dropped] == [(2, "diversity")]


@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=20))
def test_standard_scores_have_mean_zero_and_weigh_as_the_profile_says(values: list[tuple[float, float]]) -> None:
    profile = RankingProfile("plain", "zscore", dense=0.6, lexical=0.4)
    scored = score_candidates(
        [candidate(n + 1, similarity=s, lexical=w) for n, (s, w) in enumerate(values)], profile, NOW
    )
    for part, weight, column in (("dense", 0.6, 0), ("lexical", 0.4, 1)):
        parts = [s.parts[part] for s in scored]
        assert sum(parts) == pytest.approx(0, abs=1e-6)
        spread = 0 if np.std([v[column] for v in values]) < 1e-9 else weight
        assert float(np.std(parts)) == pytest.approx(spread, abs=1e-6)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"importance": 5}, {"importance": 4}),
        ({"pinned": True}, {}),
        ({}, {"type": MemoryType.insight}),
        ({"age_days": 1}, {"age_days": 40}),
    ],
)
def test_the_default_profile_prefers(better: dict[str, object], worse: dict[str, object]) -> None:
    found = [candidate(1, **worse, similarity=0.5), candidate(2, **better, similarity=0.5)]
    assert [s.candidate.id.int for s in score_candidates(found, SHIPPED["default"], NOW)] == [2, 1]


@given(candidates(), PROFILES, st.floats(0, 1))
def test_without_a_thread_its_weight_changes_nothing(
    found: list[Candidate], profile: RankingProfile, weight: float
) -> None:
    with_weight, without = (score_candidates(found, replace(profile, thread=w), NOW) for w in (weight, 0.0))
    assert [(s.candidate.id, s.total, s.parts) for s in with_weight] == [
        (s.candidate.id, s.total, s.parts) for s in without
    ]


@pytest.mark.parametrize("profile", ["default", "facts"])
@pytest.mark.parametrize(("elsewhere", "here", "first"), [(0.5, 0.5, 2), (0.502, 0.5, 2), (0.6, 0.5, 1)])
def test_a_near_tie_goes_to_the_thread_and_a_better_match_elsewhere_still_wins(
    profile: str, elsewhere: float, here: float, first: int
) -> None:
    found = [
        candidate(1, similarity=elsewhere, thread_id="there"),
        candidate(2, similarity=here, thread_id="here"),
        *(candidate(number, similarity=number / 20) for number in range(3, 9)),
    ]
    scored = score_candidates(found, SHIPPED[profile], NOW, RankingQuery(thread_id="here"))
    assert scored[0].candidate.id.int == first
    assert {s.candidate.id.int: s.parts["thread"] for s in scored if "thread" in s.parts} == {
        2: SHIPPED[profile].thread
    }
    assert score_candidates(found, SHIPPED[profile], NOW)[0].candidate.id.int == 1


def test_the_threads_weight_is_small_and_none_in_the_seeds_formula() -> None:
    default = SHIPPED["default"]
    assert 0 < default.thread < min(default.importance, default.relation)
    assert SEED.thread == 0


def test_a_candidate_without_a_vector_counts_as_the_least_similar() -> None:
    found = [candidate(1, similarity=0.9), candidate(2, similarity=0.2), candidate(3, lexical=0.5)]
    parts = {s.candidate.id.int: s.parts["dense"] for s in score_candidates(found, SHIPPED["default"], NOW)}
    assert parts[3] == pytest.approx(parts[2])
    assert score_candidates([], SHIPPED["default"], NOW) == []


def test_rounding_in_the_mean_does_not_change_the_order() -> None:
    values = ((4, 2, 4), (7, 5, 2), (6, 2, 4), (3, 4, 5), (3, 6, 1), (3, 1, 3), (2, 5, 3), (6, 3, 2), (1, 7, 5))
    found = [
        candidate(number, importance=importance, pinned=number == 1, similarity=similarity / 10, lexical=lexical / 10)
        for number, (similarity, lexical, importance) in enumerate(values, start=1)
    ]
    shuffled = [found[place - 1] for place in (1, 4, 2, 6, 5, 3, 8, 7, 9)]
    orders = [
        [s.candidate.id.int for s in score_candidates(some, SHIPPED["default"], NOW)] for some in (found, shuffled)
    ]
    assert orders[0] == orders[1]
