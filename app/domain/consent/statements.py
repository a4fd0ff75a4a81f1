"""Does a text say a value? Deterministic checks by whole words (SPEC §8). Pure, linear in the text.

The database repeats a weaker form of `contains` (migrations/schema/functions/has_words.sql): the plain ASCII words of
the value, in any order. What passes here passes there.
"""

import re
from collections.abc import Sequence
from typing import Final

from app.domain.text_rules import normalise_text

MAX_STATEMENT_CHARS: Final = 4000
"""Only the beginning of a long text is read: what somebody pastes is not their own statement."""
_SPACELESS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_SEPARATOR: Final = (
    "\\s\x00-/:-@\\[-`{-\xa9\xab-\xb1\xb4\xb6-\xb8\xbb\xbf\xd7\xf7\u2000-\u206f\u20a0-\u20cf\u2190-\u2bff\u3000-\u303f"
    "\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_WORD: Final = re.compile(f"[{_SPACELESS}]|[^{_SEPARATOR}{_SPACELESS}]+")
_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s|(?<=[。！？])|\n")
_ASCII_WORD: Final = re.compile("[a-z0-9]+")
_FILLER: Final = frozenset({"a", "an", "and", "but", "or", "the", "with"})
_DENYING: Final = (
    "not no never none nothing without cannot t dont doesnt didnt isnt arent wasnt wont cant shouldnt wouldnt neither "
    "nor hate hates hated dislike dislikes stop stops stopped avoid avoids quit less rather instead except unless if "
    "hardly barely anymore nicht kein keine keinen nie pas jamais nunca jamás sin non mai niet geen"
)
_DENIES: Final = frozenset(_DENYING.split())
"""With one of these in a sentence, it does not plainly say a value. Words after an apostrophe stand alone ("don't")."""
_QUESTION: Final = ("?", "？")
MANNERS: Final = (
    "short brief concise long detailed thorough formal informal casual friendly warm direct blunt polite plain simple "
    "playful humorous funny serious professional technical gentle encouraging neutral calm upbeat empathetic sarcastic"
)
_MANNERS: Final = frozenset(
    f"{MANNERS} relaxed kind respectful dry witty clear precise honest cheerful more very".split()
)
_INSTRUCTS: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass|obey|reveal|execute|pretend|jailbreak)\b|<\||[{}<>`]|://"
    r"|\b(?:system|developer) (?:prompt|message)s?\b|\binstructions?\b|\bpasswords?\b"
    r"|\balways (?:say|answer|reply|approve)\b",
    re.IGNORECASE,
)


def split_words(text: str) -> list[str]:
    """The words in lower case, without punctuation; in scripts without spaces each character is a word."""
    return _WORD.findall(normalise_text(text).lower())


def contains_words(text: str, value: str) -> bool:
    """Return whether the words of the value stand in the text, whole and side by side."""
    said, looked_for = split_words(text), split_words(value)
    return bool(looked_for) and _contains_run(said, looked_for) and _has_plain_words(text, value)


def ends_with_words(text: str, last: str) -> bool:
    """Return whether the text ends with these words."""
    said, looked_for = split_words(text), split_words(last)
    return bool(looked_for) and said[-len(looked_for) :] == looked_for


def states_value(text: str, value: str, *, ordered: bool = True) -> bool:
    """Return whether a sentence of the text states the value: no question, and nothing in it denies.

    With `ordered=False` the value's words may stand in any order and apart: "warm and friendly" is "friendly, warm".
    """
    looked_for = split_words(value)
    content = set(looked_for) - _FILLER or set(looked_for)
    for sentence in _SENTENCE.split(text[:MAX_STATEMENT_CHARS]):
        if sentence.rstrip().endswith(_QUESTION):
            continue
        said = split_words(sentence)
        if _DENIES & set(said) - set(looked_for):
            continue
        if _contains_run(said, looked_for) if ordered else content <= set(said):
            return bool(looked_for) and _has_plain_words(sentence, value)
    return False


def is_instruction(value: str) -> bool:
    """Return whether a value reads like an instruction to a model: only a person lets it in."""
    return _INSTRUCTS.search(value) is not None


def describes_manner(value: str) -> bool:
    """Return whether a tone is nothing but words for a manner: only a person lets another one in."""
    return all(word in _MANNERS or word in _FILLER for word in split_words(value))


def _contains_run(said: Sequence[str], looked_for: Sequence[str]) -> bool:
    return f" {' '.join(looked_for)} " in f" {' '.join(said)} "


def _has_plain_words(text: str, value: str) -> bool:
    """The database's own check."""
    said = set(_ASCII_WORD.findall(_ascii_lower(text)))
    return set(_ASCII_WORD.findall(_ascii_lower(value))) - _FILLER <= said


def _ascii_lower(text: str) -> str:
    return re.sub("[A-Z]", lambda match: match[0].lower(), text)
