"""Relevance: signals that mean the same in every pool, and the regressions that read them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from app.config.loader import load_policies
from app.domain.recall.late_interaction import hashed_projection, pack_tokens
from app.domain.recall.profiles import RankingQuery
from app.domain.recall.relevance import (
    FOREIGN,
    SIGNALS,
    Regression,
    Spread,
    estimate_relevance,
    top_scores,
)
from app.domain.recall.scoring import ScoredCandidate, score_candidates
from tests.domain.candidates import NOW, candidate

POLICIES = load_policies("all-MiniLM-L6-v2")
DEFAULT = POLICIES.profiles["default"]
assert POLICIES.relevance is not None
SHIPPED = POLICIES.relevance


def tokens(seed: int, count: int = 4) -> bytes:
    """Return packed tokens that depend on the seed alone."""
    return pack_tokens(
        np.random.default_rng(seed).standard_normal((count, 384)).astype(np.float32), hashed_projection(384)
    )


def scored(*similarities: float, profile: str = "default") -> list[ScoredCandidate]:
    """Score candidates of these similarities; the first has the words of the query, the others have not."""
    found = [
        candidate(n, similarity=one, lexical=0.03 * (n == 1), tokens=tokens(n)) for n, one in enumerate(similarities, 1)
    ]
    query = RankingQuery("coffee", tokens(1), ("coffee",) * 4)
    return score_candidates(found, POLICIES.profiles[profile], NOW, query, SHIPPED)


def test_the_match_is_relevant_and_the_rest_is_not_in_small_and_large_pools() -> None:
    for others in (1, 5, 60):
        best, *rest = scored(0.8, *[0.05] * others)
        assert best.candidate.id.int == 1
        assert best.relevance is not None
        assert best.relevance > 0.4
        assert all(one.relevance is not None and one.relevance < 0.05 for one in rest)


def test_noise_alone_is_not_relevant() -> None:
    query = RankingQuery("quantum", tokens(99), ("quantum",) * 4)
    found = [candidate(n, similarity=0.05 + n / 500, tokens=tokens(n)) for n in range(1, 31)]
    assert all((one.relevance or 0) < 0.05 for one in score_candidates(found, DEFAULT, NOW, query, SHIPPED))
    assert all((one.relevance or 0) < 0.01 for one in score_candidates(found[:2], DEFAULT, NOW, query, SHIPPED))


def test_between_two_memories_noise_does_not_outweigh_importance() -> None:
    query = RankingQuery("quantum", None, ())
    weak, strong = candidate(1, similarity=0.111, importance=1), candidate(2, similarity=0.11, importance=5)
    assert score_candidates([weak, strong], DEFAULT, NOW, query, SHIPPED)[0].candidate.id.int == 2
    assert score_candidates([weak, strong], DEFAULT, NOW, query)[0].candidate.id.int == 1  # without the usual spread


def test_a_memory_without_words_yet_has_no_relevance() -> None:
    found = [candidate(1, similarity=0.8, tokens=tokens(1)), candidate(2)]
    query = RankingQuery("coffee", tokens(1), ("coffee",) * 4)
    known = {one.candidate.id.int: one.relevance for one in score_candidates(found, DEFAULT, NOW, query, SHIPPED)}
    assert known[1] is not None
    assert known[2] is None


def test_a_profile_that_was_not_calibrated_has_no_relevance() -> None:
    assert {one.relevance for one in scored(0.8, 0.1, profile="dense")} == {None}
    assert all(one.relevance is not None for one in scored(0.8, 0.1, profile="reranked"))


def test_turns_and_facts_have_regressions_of_their_own() -> None:
    model = replace(
        SHIPPED,
        noise=None,
        turns=Regression(0.0),
        facts=Regression(math.log(3)),
        question=Regression(math.log(4)),
        conversation=Regression(0.0),
    )
    signals = np.zeros((3, len(SIGNALS)))
    signals[2, 0] = np.nan
    told, answerable = estimate_relevance(model, signals, of_turns=True)
    assert (told, answerable) == ([pytest.approx(0.25), pytest.approx(0.25), None], pytest.approx(0.5))
    told, answerable = estimate_relevance(model, signals, of_turns=False)
    assert (told, answerable) == ([pytest.approx(0.75 * 0.8), pytest.approx(0.75 * 0.8), None], pytest.approx(0.8))


def test_a_question_that_was_asked_before_makes_no_fact_less_relevant() -> None:
    query = RankingQuery("coffee", tokens(1), ("coffee",) * 4)
    facts = [candidate(n, similarity=0.6 if n == 1 else 0.1, tokens=tokens(n)) for n in (1, 2, 3)]
    asked = candidate(9, similarity=0.9, tokens=tokens(1), type="turn", thread_id="t", asks=True)
    alone = score_candidates(facts, DEFAULT, NOW, query, SHIPPED)
    beside = score_candidates([*facts, asked], DEFAULT, NOW, query, SHIPPED)
    best = next(one for one in beside if one.candidate.id.int == 1)
    for name in ("rank", "best_similarity", "pool", "few"):
        assert signal(best, name) == signal(alone[0], name)
    assert best.relevance is not None
    assert best.relevance > 0.5 * (alone[0].relevance or 0)


def test_the_best_words_of_a_long_question_are_enough() -> None:
    words = np.array([[0.9, 0.2, np.nan], [0.8, 0.2, np.nan], [0.7, 0.2, np.nan], [0.1, 0.2, np.nan]])
    assert top_scores(words)[:2] == pytest.approx([0.8, 0.2])
    assert np.isnan(top_scores(words)[2])
    assert top_scores(words[:2])[:2] == pytest.approx([0.85, 0.2])


def test_turns_and_facts_have_weights_of_their_own() -> None:
    turn = candidate(1, similarity=0.5, tokens=tokens(1), type="turn", thread_id="t", seq=1)
    found = [turn, candidate(2, similarity=0.3, tokens=tokens(2)), candidate(3, similarity=0.1, tokens=tokens(3))]
    query = RankingQuery("coffee", tokens(1), ("coffee",) * 4)
    both = replace(DEFAULT, dense=1.0, fact_dense=2.0, late=1.0, fact_late=1.0, context=1.0)
    same = replace(both, fact_dense=None, fact_late=None)
    parts = {s.candidate.id.int: s.parts for s in score_candidates(found, both, NOW, query, SHIPPED)}
    plain = {s.candidate.id.int: s.parts for s in score_candidates(found, same, NOW, query, SHIPPED)}
    assert parts[1] == plain[1]
    assert parts[2]["dense"] == pytest.approx(2 * plain[2]["dense"])
    assert "context" in plain[2]
    assert "context" not in parts[2]


def signal(one: ScoredCandidate, name: str) -> float:
    """Return a signal of a scored candidate."""
    assert one.signals is not None
    return float(one.signals[SIGNALS.index(name)])


def test_a_store_of_few_memories_is_told_from_a_large_one() -> None:
    assert [signal(scored(*[0.5] * count)[0], "few") for count in (1, 4, 50)] == pytest.approx([1.0, 0.25, 0.02])


def test_a_memory_whose_words_the_question_names_stands_out() -> None:
    query = RankingQuery("coffee", tokens(1), ("coffee",) * 4)
    named = [candidate(n, similarity=0.5, tokens=tokens(n)) for n in (1, 2, 3, 4)]
    longer = [named[0]._replace(tokens=tokens(1) + tokens(9, 30)), *named[1:]]
    gaps = [signal(score_candidates(c, DEFAULT, NOW, query, SHIPPED)[0], "covered_gap") for c in (named, longer)]
    assert gaps[0] > gaps[1] > 0.0


def test_candidates_that_are_all_less_similar_than_usual_are_foreign() -> None:
    usual = SHIPPED.dense
    low, high = usual.mean - 2 * usual.deviation, usual.mean + usual.deviation
    assert signal(scored(low, low)[0], "foreign") == pytest.approx(2 - FOREIGN)
    assert signal(scored(high, high)[0], "foreign") == 0.0
    found = [candidate(n, tokens=tokens(n)) for n in (1, 2)]  # no vectors yet
    query = RankingQuery("coffee", tokens(1), ("coffee",) * 4)
    assert signal(score_candidates(found, DEFAULT, NOW, query, SHIPPED)[0], "foreign") == 0.0


def test_a_coefficient_of_an_unknown_signal_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown signals: colour"):
        Regression(0.0, {"colour": 1.0})
    with pytest.raises(ValueError, match="deviation"):
        Spread(0.1, 0.0)
