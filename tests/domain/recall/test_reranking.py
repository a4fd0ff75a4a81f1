"""The effect of a reranker's score on the ranking, with the formula of the profile reranked."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.config.loader import load_policies
from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.profiles import RankingProfile, RankingQuery
from app.domain.recall.scoring import ScoredCandidate, candidate_relevance, score_candidates
from app.domain.recall.selection import keep_relevant, keep_reranked

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SHIPPED = load_policies("all-MiniLM-L6-v2").profiles
DEFAULT, SEED = SHIPPED["default"], SHIPPED["reranked"]
LOGITS = st.floats(-40, 40, width=32)


def candidate(number: int, rerank: float | None, age_days: float = 0.0, similarity: float | None = 0.5) -> Candidate:
    """Return a candidate after search and reranking."""
    at = NOW - timedelta(days=age_days)
    base = Candidate(UUID(int=number), "event", MemoryType.semantic, 2, False, at, at)
    return base._replace(similarity=similarity, rerank=rerank)


def order(found: Sequence[Candidate], profile: RankingProfile) -> list[int]:
    """Return the numbers of the candidates, best first."""
    return [s.candidate.id.int for s in score_candidates(found, profile, NOW)]


@given(LOGITS, st.floats(0, 3650))
def test_seed_002_blends_the_sigmoid_of_the_score_with_recency_and_drops_below_its_threshold(
    logit: float, age_days: float
) -> None:
    scored = score_candidates([candidate(1, logit, age_days)], SEED, NOW)
    sigmoid = 1 / (1 + math.exp(-logit))
    assert scored[0].total == pytest.approx(0.8 * sigmoid + 0.2 * math.exp(-age_days / 30), abs=1e-12)
    assert scored[0].parts == pytest.approx(
        {"relevance": 0.8 * sigmoid, "recency": 0.2 * math.exp(-age_days / 30)}, abs=1e-12
    )
    kept, dropped = keep_relevant(scored, SEED)
    assert (len(kept), [d.reason for d in dropped]) == ((1, []) if sigmoid >= 0.35 else (0, ["score_threshold"]))


@pytest.mark.parametrize("logit", [-1e308, -1000.0, 1000.0, 1e308])
def test_no_score_is_too_large(logit: float) -> None:
    assert candidate_relevance(candidate(1, logit), SEED) == (logit > 0)
    assert score_candidates([candidate(1, logit)], SEED, NOW)[0].total == pytest.approx(0.8 * (logit > 0) + 0.2)


def test_of_the_seeds_pool_nothing_unread_is_answered() -> None:
    found = [candidate(1, 0.5), candidate(2, None, similarity=0.99), candidate(3, -0.5)]
    kept, dropped = keep_reranked(score_candidates(found, SEED, NOW), SEED)
    assert [s.candidate.id.int for s in kept] == [1, 3]
    assert [(d.scored.candidate.id.int, d.reason) for d in dropped] == [(2, "rank")]
    unread = score_candidates([c._replace(rerank=None) for c in found], SEED, NOW)
    assert keep_reranked(unread, SEED) == (unread, [])
    fused = score_candidates(found, DEFAULT, NOW)
    assert keep_reranked(fused, DEFAULT) == (fused, [])


@given(st.lists(LOGITS, min_size=2, max_size=20))
def test_where_nothing_else_differs_the_rerank_scores_are_the_order(logits: list[float]) -> None:
    assume(len(set(logits)) == 1 or np.std(logits) > 1e-6)
    found = [candidate(number, logit) for number, logit in enumerate(logits, start=1)]
    scored = score_candidates(found, DEFAULT, NOW)
    ordered = [s.candidate.rerank or 0.0 for s in scored]
    assert all(better >= worse - 1e-5 for better, worse in itertools.pairwise(ordered))
    for one in scored:
        assert one.total == pytest.approx(sum(one.parts.values()), abs=1e-9)
        assert "late" not in one.parts
    assert float(np.std([s.parts["rerank"] for s in scored])) == pytest.approx(
        DEFAULT.rerank if len(set(logits)) > 1 else 0, abs=1e-5
    )


def test_what_was_not_read_counts_as_the_worst_that_was() -> None:
    found = [candidate(1, 4.0), candidate(2, -4.0), candidate(3, None), candidate(4, 0.0)]
    parts = {s.candidate.id.int: s.parts["rerank"] for s in score_candidates(found, DEFAULT, NOW)}
    assert parts[3] == parts[2] < parts[4] < parts[1]
    assert order(found, DEFAULT) == [1, 4, 2, 3]


def test_the_score_is_added_and_changes_no_other_part_and_no_relevance() -> None:
    policies = load_policies("all-MiniLM-L6-v2")
    rng = np.random.default_rng(7)
    tokens = [rng.integers(-60, 60, 96, np.int8).tobytes() for _ in range(4)]
    found = [candidate(n, -float(n))._replace(tokens=tokens[n], similarity=0.1 * n, lexical=0.2 * n) for n in (1, 2, 3)]
    asked = RankingQuery("a question", tokens[0])

    def score(given: Sequence[Candidate], profile: RankingProfile) -> dict[int, ScoredCandidate]:
        return {s.candidate.id.int: s for s in score_candidates(given, profile, NOW, asked, policies.relevance)}

    read, heavy = score(found, DEFAULT), score(found, replace(DEFAULT, rerank=9.0))
    unread = score([c._replace(rerank=None) for c in found], DEFAULT)
    assert list(heavy) == [1, 2, 3] != list(unread)
    for number, one in unread.items():
        assert {"dense", "lexical", "late"} <= set(one.parts) == set(read[number].parts) - {"rerank"}
        for other in (read[number], heavy[number]):
            assert {name: value for name, value in other.parts.items() if name != "rerank"} == one.parts
            assert one.relevance is not None
            assert other.relevance == pytest.approx(one.relevance, abs=1e-9)
            assert other.answerable == pytest.approx(one.answerable, abs=1e-9)
    assert score(found, replace(DEFAULT, rerank=0.0))[1].parts == unread[1].parts


def test_how_many_are_read() -> None:
    assert [SEED.rerank_count(top_k) for top_k in (1, 5, 50)] == [3, 15, 150]
    assert [DEFAULT.rerank_count(top_k) for top_k in (1, 20, 60)] == [20, 20, 60]
    assert replace(DEFAULT, rerank_candidates=4).rerank_count(2) == 4
    assert replace(DEFAULT, rerank=0.0).rerank_count(5) == 0
    for wrong in (0, -1, 1001):
        with pytest.raises(ValueError, match="rerank_candidates must be from 1 to 1000"):
            replace(DEFAULT, rerank_candidates=wrong)
