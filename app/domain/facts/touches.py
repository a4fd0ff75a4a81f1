"""Sentences that touch a topic by its noun alone: "Idles are the best band", "My favorite band changed"."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from app.domain import english
from app.domain.facts.mentions import find_mentions
from app.domain.facts.topics import FactTopics

_EN: Final = english.patterns("facts", "retractions")
_WORDS: Final = english.words("facts", "retractions")
_CUE_STEMS: Final = tuple(_WORDS.cue_stems)


def has_cue(text: str) -> bool:
    """Tell whether a text has words of a negation, a change or a hedge: without one, it neither retracts nor doubts."""
    words = _EN.word.findall(text.lower())
    if not _WORDS.cue_words.isdisjoint(words) or any(word.startswith(_CUE_STEMS) for word in words):
        return True
    return _EN.cue_phrases.search(text) is not None


def touched_topics(sentences: Iterable[str], stored: Collection[str], topics: FactTopics) -> frozenset[str]:
    """Return the stored topics whose noun stands in a sentence about what the user prefers. Linear.

    A sentence with a mention of a stored topic ("my favorite band") is for other rules, unless it is a new favorite.
    """
    nouns = {noun: key for key in stored for noun in _nouns_of(key, topics)}
    touched: set[str] = set()
    for sentence in sentences:
        if not _tells_preference(sentence):
            continue
        mentions = [(one.topic, sentence[one.start : one.end].casefold()) for one in find_mentions(sentence, topics)]
        if not any(topic in stored and "new" not in words.split() for topic, words in mentions):
            named = (found["noun"].casefold() for found in _EN.topic_noun.finditer(sentence))
            touched |= {nouns[noun] for noun in named if noun in nouns}
    return frozenset(touched)


def _tells_preference(sentence: str) -> bool:
    """Tell whether a sentence may change what the user prefers."""
    if sentence.endswith("?") or _EN.stays.search(sentence) or _EN.other_task.match(sentence):
        return False
    if _EN.other_person.search(sentence) or _EN.other_favorite.search(sentence):
        return False
    return _EN.prefers.search(sentence) is not None and has_cue(sentence)


def _nouns_of(topic_key: str, topics: FactTopics) -> Iterator[str]:
    """Yield the last words of a topic's names: band, bands."""
    for name in (topics.singular_name(topic_key), topics.topic_name(topic_key)):
        yield name.casefold().split()[-1]
