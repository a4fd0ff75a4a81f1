"""Reactions, their mirror in the turn log, and the choice of the turn that a feedback is about."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import InvalidInput, LowConfidence
from app.domain.turn_memory.feedback import (
    GivenReaction,
    Origin,
    Reaction,
    Verdict,
    mirror_reaction,
    rank_candidates,
    read_reaction,
    share_words,
)

NOW = datetime(2026, 1, 26, 15, 3, 12, 345_000, UTC)


def made(text: str, origin: Origin = Origin.user, verdict: Verdict | None = Verdict.ok, later: int = 0) -> Reaction:
    return Reaction("turn_1", NOW + timedelta(seconds=later), origin, verdict, text)


def test_a_machine_needs_a_confidence_of_seventy_percent() -> None:
    given = GivenReaction(Origin.machine, Verdict.ok, " two\n words ", 0.7)
    assert read_reaction(given).text == "two words"
    for confidence in (0.699999, 0.0, None, float("nan")):
        with pytest.raises(LowConfidence):
            read_reaction(GivenReaction(Origin.machine, Verdict.ok, "x", confidence))
    assert read_reaction(GivenReaction(Origin.user, Verdict.ok, "x", 0.1)).confidence == 0.1


def test_a_text_has_a_limit() -> None:
    assert len(read_reaction(GivenReaction(Origin.user, Verdict.ok, "x" * 2000)).text) == 2000
    with pytest.raises(InvalidInput):
        read_reaction(GivenReaction(Origin.user, Verdict.ok, "x" * 2001))


def test_the_score_has_85_parts_of_similarity_and_15_of_recency() -> None:
    newest, oldest = rank_candidates(["newest", "oldest"], [0.0, 1.0])[::-1]
    assert newest.turn_id == "newest"
    assert newest.score == pytest.approx(0.15)
    assert oldest.score == pytest.approx(0.85)


def test_recency_falls_in_equal_steps_and_breaks_a_tie() -> None:
    ranked = rank_candidates(["a", "b", "c", "d", "e"], [0.5] * 5)
    assert [one.turn_id for one in ranked] == ["a", "b", "c", "d", "e"]
    assert [one.recency for one in ranked] == [1, 0.75, 0.5, 0.25, 0]
    assert rank_candidates(["only"], [0.5])[0].recency == 1


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=10))
def test_a_score_is_a_share(similarities: list[float]) -> None:
    ranked = rank_candidates([str(n) for n in range(len(similarities))], similarities)
    scores = [one.score for one in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_the_log_has_one_reaction_of_the_user_in_order_of_time() -> None:
    log = mirror_reaction((), made("one"), in_log=True)
    log = mirror_reaction(log, made("machine", Origin.machine, later=1), in_log=True)
    assert mirror_reaction(log, made("unseen", Origin.machine, later=2), in_log=False) == log
    log = mirror_reaction(log, made("two", later=3), in_log=False)
    assert [shown["text"] for shown in log] == ["machine", "two"]
    log = mirror_reaction(log, made("", verdict=None, later=4), in_log=True)
    assert [shown["text"] for shown in log] == ["machine"]
    assert mirror_reaction(log, made("three", later=5), in_log=False) == log


def test_common_words_count_without_regard_to_case_and_order() -> None:
    assert share_words("Sweet cake, cake!", ["CAKE; so sweet", "a sweet boat", ""]) == [1, 0.5, 0]
    assert share_words("?!", ["any"]) == [0]
