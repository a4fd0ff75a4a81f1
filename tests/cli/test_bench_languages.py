"""mnema bench languages: the corpora, and a run of one language."""

import pytest

from bench.languages import ENGLISH, PARTS, Corpus, known_languages, run


@pytest.mark.parametrize("part", PARTS)
def test_the_corpora_are_the_same_in_every_language(part: str) -> None:
    english = Corpus(part, ENGLISH)
    assert len(known_languages()) == 9
    for language in known_languages():
        corpus = Corpus(part, language)
        assert corpus.memories.keys() == english.memories.keys()
        assert [question.answer for question in corpus.questions] == [one.answer for one in english.questions]
        texts = [*corpus.memories.values(), *(question.text for question in corpus.questions)]
        assert len(set(texts)) == len(texts) >= 40 + 60


@pytest.mark.parametrize("part", PARTS)
def test_every_answer_is_a_memory(part: str) -> None:
    english = Corpus(part, ENGLISH)
    answers = {question.answer for question in english.questions}
    assert None in answers
    assert answers - {None} <= english.memories.keys()


@pytest.mark.long
def test_questions_find_their_answer_and_others_little() -> None:
    [german] = run("held_out", "multilingual-e5-small", ["de"], lambda _: None)
    assert german.language == "de"
    assert german.stored == 1.0
    assert german.within >= 0.88
    assert german.across >= 0.88
    assert german.needless <= 2.5
