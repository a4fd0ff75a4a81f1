"""Questions about a subject as a whole: which they are, their subject, and how they are ranked."""

from dataclasses import replace

import numpy as np
import pytest

from app.config.loader import load_policies
from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.late_interaction import hashed_projection, pack_tokens
from app.domain.recall.overviews import LONGEST, find_topic, score_feedback
from app.domain.recall.profiles import RankingQuery, Topic
from app.domain.recall.scoring import ScoredCandidate, score_candidates
from bench.overviews import count_found, load_questions
from tests.domain.candidates import NOW, candidate

LANGUAGES = ("en", "de", "es", "fr", "pt", "ja")
PROFILE = load_policies("all-MiniLM-L6-v2").profiles["default"]


def tokens(*seeds: int) -> bytes:
    """Return packed words, one for each seed. Equal seeds give equal words."""
    words = [np.random.default_rng(seed).standard_normal(384) for seed in seeds]
    return pack_tokens(np.array(words, np.float32), hashed_projection(384))


def score(found: list[Candidate], topic: Topic | None) -> dict[int, ScoredCandidate]:
    """Score candidates for a query with the words 1 and 2; return them by number."""
    query = RankingQuery("a question", tokens(1, 2), ("boat", "harbour"), topic=topic)
    return {scored.candidate.id.int: scored for scored in score_candidates(found, PROFILE, NOW, query)}


def turn(number: int, words: bytes, **fields: object) -> Candidate:
    fields = {"type": MemoryType.turn, "thread_id": f"t{number}", "seq": 0, "similarity": 0.5} | fields
    return candidate(number, tokens=words, **fields)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("part", "share"), [("development", 0.9), ("held_out", 0.9)])
def test_the_labelled_questions_are_recognised(language: str, part: str, share: float) -> None:
    counts = count_found([one for one in load_questions(part) if one["language"] == language])
    assert counts.wrong == 0
    assert counts.found >= share * counts.asked
    assert counts.exact >= 0.7 * counts.found


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("In what order did I tell you about Dad's house?", Topic("Dad's house", "en", True)),
        ("Summarise what we've said about C++ so far, please.", Topic("C++", "en", False)),
        ("In welcher Reihenfolge habe ich dir vom Dach erzählt?", Topic("Dach", "de", True)),
        ("Résume ce dont nous avons discuté à propos de l'école.", Topic("école", "fr", False)),
    ],
)
def test_the_subject_is_what_is_left_without_the_words_about_telling(question: str, topic: Topic) -> None:
    assert find_topic(question) == topic


@pytest.mark.parametrize(
    "question",
    [
        "In welke volgorde heb ik je over het dak verteld?",  # no rules of Dutch
        "Riassumi quello che ti ho raccontato di mia sorella.",  # nor of Italian
        "Summarise what we said so far.",  # no subject
        "Summarise what we said about the roof. " + "It is long. " * LONGEST,
        "",
    ],
)
def test_any_other_text_has_no_subject(question: str) -> None:
    assert find_topic(question) is None


def test_what_is_like_the_best_ranks_higher_only_for_a_question_about_a_subject() -> None:
    best = [turn(number, tokens(1, 2, 50)) for number in range(1, 6)]
    alike, other = turn(6, tokens(50, 51)), turn(7, tokens(60, 61))
    found = [*best, alike, other, *(turn(number, tokens(number)) for number in range(100, 110))]
    with_topic, without = score(found, Topic("boat harbour", "en")), score(found, None)
    assert "feedback" not in without[6].parts
    assert with_topic[6].parts["feedback"] > with_topic[7].parts["feedback"]
    assert with_topic[6].total - with_topic[7].total > without[6].total - without[7].total


def test_in_an_order_of_telling_the_user_comes_before_the_assistant() -> None:
    found = [turn(1, tokens(1, 2)), turn(2, tokens(1, 2), assistant=True)]

    def lead(topic: Topic) -> float:
        scored = score(found, topic)
        return scored[1].parts["assistant"] - scored[2].parts["assistant"]

    assert lead(Topic("boat", "en", ordered=True)) == pytest.approx(3 * lead(Topic("boat", "en")))


def test_an_order_of_telling_runs_through_all_sessions() -> None:
    found = [turn(1, tokens(1, 2)), turn(2, tokens(5), thread_id="t1", seq=1), turn(3, tokens(6)), turn(4, tokens(7))]
    assert {"session", "neighbours"} <= set(score(found, Topic("boat", "en"))[2].parts)
    assert not {"session", "neighbours"} & set(score(found, Topic("boat", "en", ordered=True))[2].parts)


def test_a_standing_order_is_no_event() -> None:
    found = [turn(1, tokens(1, 2), orders=True), turn(2, tokens(1, 2))]
    assert "orders" in score(found, None)[1].parts
    assert "orders" not in score(found, Topic("boat", "en"))[1].parts


def test_a_candidate_without_words_is_neither_alike_nor_unlike() -> None:
    likeness = score_feedback([tokens(1, 2), None, tokens(1, 2), tokens(9)], np.array([3.0, 2.0, 1.0, 0.0]))
    assert np.isfinite(likeness).all()
    assert likeness[3] < likeness[1] < likeness[2]
    assert not score_feedback([None, None], np.array([1.0, 0.0])).any()


def test_a_profile_without_the_weight_has_no_feedback() -> None:
    query = RankingQuery("a question", tokens(1), ("boat",), topic=Topic("boat", "en"))
    found = [turn(1, tokens(1)), turn(2, tokens(2))]
    plain = score_candidates(found, replace(PROFILE, feedback=0.0), NOW, query)
    assert all("feedback" not in scored.parts for scored in plain)
