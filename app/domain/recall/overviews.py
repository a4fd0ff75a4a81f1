"""Questions about a subject as a whole: "In what order did I …", "Summarise what we said about …".

Most of their words are about telling, and what answers them has none of these words. They are searched and ranked by
the words of their subject alone, and then by the likeness to the best candidates: what belongs to a subject is alike.

The forms and words are data of each language. A question of another language is searched as it is.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

import numpy as np

from app.domain import english
from app.domain.languages import ENGLISH, detect_language
from app.domain.phrasebooks.phrasebook import Phrasebook, fold, phrasebooks_for
from app.domain.recall.dialogue import Values, standardise_scores
from app.domain.recall.late_interaction import mean_words
from app.domain.recall.profiles import RankingProfile, Topic

_FORMS: Final = english.forms("recall", "overviews")
_PATTERNS: Final = english.patterns("recall", "overviews")

LONGEST: Final = 500
"""The characters of the longest question that is read. A longer text is seldom a question about one subject."""
FEEDBACK_DEPTH: Final = 5
"""The number of best candidates that the others are compared with."""
ASSISTANT_OF_ORDER: Final = 3.0
"""The factor of the weight of the assistant's turns, if a question is about the order in which its user told things."""
_WORD: Final = re.compile(r"\w+(?:['’.\-/&]\w+)*+[+#]*")
_REST: Final = re.compile(r"(?<!\w)['’](?:s|ve|m|re|ll|d)\b")
"""The end of "we've" whose word is gone."""


@dataclass(frozen=True, slots=True)
class _Forms:
    """The patterns of one language: the questions, what is none, and the words about telling."""

    language: str
    order: Sequence[re.Pattern[str]]
    summary: Sequence[re.Pattern[str]]
    unless: re.Pattern[str]
    frame: Sequence[re.Pattern[str]]
    folded: bool

    def find_topic(self, question: str) -> Topic | None:
        """Return the subject of the question, None if it asks for something else or has no subject."""
        read = fold(question) if self.folded else question.replace("’", "'")
        if self.unless.search(read):
            return None
        ordered = any(form.search(read) for form in self.order)
        if not ordered and not any(form.search(read) for form in self.summary):
            return None
        kept = list(question)
        for pattern in self.frame:
            for found in pattern.finditer(read):
                kept[found.start() : found.end()] = " " * (found.end() - found.start())
            read = "".join(" " if new == " " else old for old, new in zip(read, kept, strict=True))
        text = " ".join(_WORD.findall(_REST.sub(" ", "".join(kept))))
        return Topic(text, self.language, ordered) if text else None


@cache
def _english_forms() -> _Forms:
    return _Forms(
        ENGLISH, _FORMS.order, _FORMS.summary, _PATTERNS.unless, (*_FORMS.frame, _PATTERNS.frame_words), folded=False
    )


@cache
def _forms_of(book: Phrasebook) -> _Forms | None:
    """Return the patterns of a phrasebook, None if it has none."""
    section = book.sections.get("overviews")
    if section is None:
        return None
    return _Forms(
        book.code,
        [book.compile(form) for form in section["order"]],
        [book.compile(form) for form in section["summary"]],
        book.compile(section["unless"]),
        [book.compile("{word}(?:" + part + "){end}") for part in section["frame"]],
        folded=True,
    )


def _forms_for(question: str) -> Iterator[_Forms]:
    if detect_language(question) == ENGLISH:
        yield _english_forms()
    for book in phrasebooks_for(question):
        if forms := _forms_of(book):
            yield forms


@lru_cache(maxsize=256)
def find_topic(question: str) -> Topic | None:
    """Return the subject of a question about a subject as a whole; None for any other text. Takes linear time."""
    if len(question) > LONGEST:
        return None
    return next((topic for forms in _forms_for(question) if (topic := forms.find_topic(question))), None)


def adapt_profile(profile: RankingProfile, topic: Topic | None) -> RankingProfile:
    """Return the profile for a question about the subject; the same for a question that has none.

    A standing order is no event. The order in which a user told things is in turns of the user, and runs through all
    sessions: being near another turn that matches tells nothing.
    """
    if topic is None:
        return profile
    if not topic.ordered:
        return replace(profile, orders=0.0)
    return replace(profile, orders=0.0, session=0.0, neighbours=0.0, assistant=profile.assistant * ASSISTANT_OF_ORDER)


def score_feedback(tokens: Sequence[bytes | None], totals: Values) -> Values:
    """Return the likeness of each candidate to the best of the `totals`, in standard deviations.

    `tokens` are the packed words of the candidates. One without words has the mean likeness.
    """
    places = np.array([place for place, packed in enumerate(tokens) if packed], np.intp)
    if not len(places):
        return np.zeros(len(tokens))
    means = mean_words([packed for packed in tokens if packed])
    best = means[np.argsort(-totals[places], kind="stable")[:FEEDBACK_DEPTH]].mean(axis=0)
    known = means @ best
    likeness = np.full(len(tokens), known.mean())
    likeness[places] = known
    return standardise_scores(likeness)
