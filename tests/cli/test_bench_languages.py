"""mnema bench languages: the corpora, and a run of one language."""

import pytest

from bench.languages import ENGLISH, Corpus, known_languages, run


def test_the_corpora_are_the_same_in_every_language() -> None:
    english = Corpus(ENGLISH)
    assert len(known_languages()) == 9
    for language in known_languages():
        corpus = Corpus(language)
        assert corpus.memories.keys() == english.memories.keys()
        assert [question.answer for question in corpus.questions] == [one.answer for one in english.questions]
        texts = [*corpus.memories.values(), *(question.text for question in corpus.questions)]
        assert len(set(texts)) == len(texts) >= 40 + 60


def test_every_answer_is_a_memory() -> None:
    english = Corpus(ENGLISH)
    answers = {question.answer for question in english.questions}
    assert None in answers
    assert answers - {None} <= english.memories.keys()


@pytest.mark.long
def test_a_run_measures_the_languages_that_are_named() -> None:
    [german] = run("multilingual-e5-small", ["de"], lambda _: None)
    assert german.language == "de"
    assert german.stored == 1.0
    assert german.within >= 0.75
    assert german.across >= 0.75
