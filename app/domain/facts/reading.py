"""Statements, questions and retractions of a message, in English and in the languages of the phrasebooks."""

from collections.abc import Sequence

from app.domain.facts import questions as english_questions
from app.domain.facts import retractions as english_retractions
from app.domain.facts.fact import FactOperation, QuestionPart
from app.domain.facts.phrasebook_facts import FactLanguage, fact_languages
from app.domain.facts.ranked_lists import MAX_RANK
from app.domain.facts.retractions import KnownFact, ThreadOperation
from app.domain.facts.topics import FactTopics
from app.domain.languages import detect_language
from app.domain.phrasebooks.phrasebook import phrasebooks_for


def read_stated(
    text: str, topics: FactTopics, max_rank: int = MAX_RANK, parts: Sequence[QuestionPart] | None = None
) -> tuple[FactOperation, ...]:
    """Return what a message states, in order. The first language whose forms it has counts. Linear.

    `parts` is the result of `parse_question` for the text, None if it was not called yet.
    """
    if stated := english_questions.read_stated(text, topics, max_rank, parts):
        return stated
    if parts:
        return ()
    found = (language.read_statements(text, max_rank) for language in _languages_of(text))
    return next((operations for operations in found if operations), ())


def parse_question(text: str, topics: FactTopics) -> tuple[QuestionPart, ...]:
    """Return the parts of a question for stored facts, nothing for any other text. Linear."""
    if parts := english_questions.parse_question(text, topics):
        return parts
    found = (language.read_question(text) for language in _languages_of(text))
    return tuple(part for part in found if part is not None)[:1]


def may_retract(text: str) -> bool:
    """Tell whether a message has a word of a negation, a change or a hedge. Any other message retracts nothing."""
    return english_retractions.may_retract(text) or any(one.may_retract(text) for one in fact_languages())


def read_retractions(
    text: str,
    known: Sequence[KnownFact],
    topics: FactTopics,
    stated: Sequence[FactOperation] = (),
    thread_id: str | None = None,
) -> list[ThreadOperation]:
    """Return what a message in a thread takes back, corrects or puts in doubt (`facts.retractions`).

    The language is that of the words around the stored values, which may be names of another language. In a language
    with a phrasebook, sentences that ask, suppose or tell of another person put nothing in doubt.
    """
    if not known:
        return []
    words = _without_values(text, known)
    spoken = next((one for one in fact_languages() if one.book.code == detect_language(words)), None)
    if all(operation.op == "remove" for operation in stated):
        languages = _languages_of(words)
        found = (language.read_retractions(text, known) for language in languages)
        if retracted := next((operations for operations in found if operations), None):
            return retracted
        doubts = (language.read_doubt(text, known) for language in languages)
        if doubted := next((operations for operations in doubts if operations), None):
            return doubted
    own = text if spoken is None else spoken.own_sentences(text)
    return english_retractions.read_retractions(own, known, topics, stated, thread_id)


def _without_values(text: str, known: Sequence[KnownFact]) -> str:
    """Return a message without the stored values that it names as they are written."""
    for value in {fact.value for fact in known[: english_retractions.MAX_KNOWN]}:
        text = text.replace(value, " ")
    return text


def _languages_of(text: str) -> Sequence[FactLanguage]:
    codes = {book.code for book in phrasebooks_for(text)}
    return [one for one in fact_languages() if one.book.code in codes]
