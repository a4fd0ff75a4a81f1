"""The fact rules on messages and questions that were labelled before the rules."""

import pytest

from bench import fact_rules as bench

TOPICS = bench.load_topics()


@pytest.mark.parametrize("part", bench.PARTS)
def test_hardly_anything_wrong_is_stored_and_most_that_is_stated(part: str) -> None:
    figures = bench.Figures()
    bench.measure_messages(part, TOPICS, figures)
    print(f"facts, {part}: precision {figures.precision:.3f}, recall {figures.recall:.3f}")
    assert figures.precision >= 0.98, figures.failures
    assert figures.recall >= 0.90, figures.failures


@pytest.mark.parametrize("part", bench.PARTS)
def test_questions_are_answered_right_and_never_with_another_topic(part: str) -> None:
    figures = bench.Figures()
    bench.measure_questions(part, TOPICS, figures)
    print(f"facts, {part}: answers right {figures.answers_right():.3f}, topic bleed {figures.bleed}")
    assert figures.answers_right(search=False) >= 0.98, figures.failures
    assert figures.answers_right(search=True) >= 0.98, figures.failures
    assert figures.bleed == 0, figures.failures


@pytest.mark.parametrize("part", bench.PARTS)
def test_the_corpus_is_large_and_varied(part: str) -> None:
    messages, questions = bench.load_rows(part, "messages"), bench.load_rows(part, "questions")
    assert len(messages) >= 200
    assert sum(row["group"] == "look_alike" for row in messages) >= 60
    assert sum(row["after"] != row["stored"] for row in messages) >= 80
    assert len(questions) >= 150
    assert sum(row["expect"] == bench.SEARCH for row in questions) >= 40
