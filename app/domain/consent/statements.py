"""Deterministic checks by whole words: does a text state a value? They take linear time.

The database repeats a weaker form of `contains_words` (migrations/schema/functions/has_words.sql): the plain ASCII
words of the value, in any order. A text that passes here passes there too.
"""

import re
from collections.abc import Sequence
from typing import Final

from app.domain import english
from app.domain.text_rules import normalise_text

_EN: Final = english.patterns("consent", "statements")
_WORDS: Final = english.words("consent", "statements")

MAX_STATEMENT_CHARS: Final = 4000
"""Characters read of a text. A longer text is probably pasted and not the person's own statement."""
_SPACELESS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_SEPARATOR: Final = (
    "\\s\x00-/:-@\\[-`{-\xa9\xab-\xb1\xb4\xb6-\xb8\xbb\xbf\xd7\xf7\u2000-\u206f\u20a0-\u20cf\u2190-\u2bff\u3000-\u303f"
    "\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_WORD: Final = re.compile(f"[{_SPACELESS}]|[^{_SEPARATOR}{_SPACELESS}]+")
_QUESTION: Final = ("?", "？")


def split_words(text: str) -> list[str]:
    """Return the words in lower case, without punctuation. In scripts without spaces each character is a word."""
    return _WORD.findall(normalise_text(text).lower())


def contains_words(text: str, value: str) -> bool:
    """Tell whether the words of the value stand in the text, whole and side by side."""
    text_words = split_words(text)
    value_words = split_words(value)
    return bool(value_words) and _contains_run(text_words, value_words) and _has_plain_words(text, value)


def ends_with_words(text: str, last: str) -> bool:
    """Tell whether the text ends with the words of `last`. Punctuation and case do not matter."""
    text_words = split_words(text)
    last_words = split_words(last)
    return bool(last_words) and text_words[-len(last_words) :] == last_words


def states_value(text: str, value: str, *, ordered: bool = True) -> bool:
    """Tell whether a sentence of the text states the value. A question or a sentence with a negation does not.

    With `ordered=False` the value's words may be in any order and apart: "warm and friendly" is "friendly, warm".
    """
    value_words = split_words(value)
    content = set(value_words) - _WORDS.filler or set(value_words)
    for sentence in _EN.sentence.split(text[:MAX_STATEMENT_CHARS]):
        if sentence.rstrip().endswith(_QUESTION):
            continue
        sentence_words = split_words(sentence)
        if _WORDS.denies & set(sentence_words) - set(value_words):
            continue
        if _contains_run(sentence_words, value_words) if ordered else content <= set(sentence_words):
            return bool(value_words) and _has_plain_words(sentence, value)
    return False


def is_instruction(value: str) -> bool:
    """Tell whether a value reads like an instruction to a model. Only a person may accept such a value."""
    return _EN.instructs.search(value) is not None


def describes_manner(value: str) -> bool:
    """Tell whether a tone consists only of words for a manner. Only a person may accept another one."""
    return all(word in _WORDS.manners | _WORDS.further_manners | _WORDS.filler for word in split_words(value))


def _contains_run(words: Sequence[str], run: Sequence[str]) -> bool:
    return f" {' '.join(run)} " in f" {' '.join(words)} "


def _has_plain_words(text: str, value: str) -> bool:
    """Apply the same check as the database function `has_words`."""
    words = set(_EN.ascii_word.findall(_ascii_lower(text)))
    return set(_EN.ascii_word.findall(_ascii_lower(value))) - _WORDS.filler <= words


def _ascii_lower(text: str) -> str:
    return re.sub("[A-Z]", lambda match: match[0].lower(), text)
