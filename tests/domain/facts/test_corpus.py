"""The fact rules on messages and questions that were labelled before the rules."""

import pytest

from app.domain.facts.questions import parse_question, read_stated
from app.domain.facts.ranked_lists import MAX_RANK
from app.domain.facts.statements import read_statements
from app.domain.text_rules import normalise_text
from bench import fact_rules as bench

TOPICS = bench.load_topics()
LEAST = {
    "development": (0.98, 0.98, 0.98, 0.98),
    "held_out": (0.98, 0.98, 0.98, 0.98),
    "natural_development": (0.98, 0.95, 0.98, 0.98),
    "natural_held_out": (0.98, 0.85, 0.95, 0.98),
}
"""The least precision and recall of messages, and the least shares of questions answered and left to search."""


@pytest.mark.parametrize("part", bench.PARTS)
def test_hardly_anything_wrong_is_stored_and_most_that_is_stated(part: str) -> None:
    figures = bench.Figures()
    bench.measure_messages(part, TOPICS, figures)
    print(f"facts, {part}: precision {figures.precision:.3f}, recall {figures.recall:.3f}")
    precision, recall, _answered, _left = LEAST[part]
    assert figures.precision >= precision, figures.failures
    assert figures.recall >= recall, figures.failures


@pytest.mark.parametrize("part", bench.PARTS)
def test_questions_are_answered_right_and_never_with_another_topic(part: str) -> None:
    figures = bench.Figures()
    bench.measure_questions(part, TOPICS, figures)
    print(f"facts, {part}: answers right {figures.answers_right():.3f}, topic bleed {figures.bleed}")
    _precision, _recall, answered, left = LEAST[part]
    assert figures.answers_right(search=False) >= answered, figures.failures
    assert figures.answers_right(search=True) >= left, figures.failures
    assert figures.bleed == 0, figures.failures


@pytest.mark.parametrize("part", bench.PARTS)
def test_a_question_of_one_sentence_states_nothing(part: str) -> None:
    rows = [*bench.load_rows(part, "messages"), *bench.load_rows(part, "questions")]
    texts = [normalise_text(row["text"] if "text" in row else row["query"]) for row in rows]
    questions = [text for text in texts if parse_question(text, TOPICS)]
    assert len(questions) > 30
    for text in texts:
        stated = read_stated(text, TOPICS, MAX_RANK)
        assert (
            stated == read_statements(text, TOPICS) == read_stated(text, TOPICS, MAX_RANK, parse_question(text, TOPICS))
        )


@pytest.mark.parametrize("part", bench.PARTS)
def test_the_corpus_is_large_and_varied(part: str) -> None:
    messages, questions = bench.load_rows(part, "messages"), bench.load_rows(part, "questions")
    whole = 1.0 if not part.startswith("natural") else 0.5  # by a third author
    assert len(messages) >= 200 * whole
    assert sum(row["group"] == "look_alike" for row in messages) >= 60 * whole
    assert sum(row["after"] != row["stored"] for row in messages) >= 80 * whole
    assert len(questions) >= 150 * whole
    assert sum(row["expect"] == bench.SEARCH for row in questions) >= 40 * whole
