"""English nouns: their singular, their plural, and the noun phrase that follows "my favorite"."""

import unicodedata
from typing import Final

from app.domain import english

_PAIRS: Final = english.pairs("facts", "nouns")
_EN: Final = english.patterns("facts", "nouns")
_WORDS: Final = english.words("facts", "nouns")

MAX_NOUN_WORDS: Final = 4
_SINGULARS: Final = {plural: singular for singular, plural in _PAIRS.irregular.items()}
OTHER_NOUNS: Final = _WORDS.other_nouns
EMPTY_HEADS: Final = _WORDS.empty_heads


def to_singular(word: str) -> str:
    """Return the singular of a noun in lower case. A singular noun returns unchanged."""
    if word in _WORDS.invariable or word.endswith(("ss", "us", "is")):
        return word
    if word in _SINGULARS:
        return _SINGULARS[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-1] if word[:-1] in _WORDS.ie else f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "xes", "sses", "zzes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and len(word) > 2 else word


def to_plural(word: str) -> str:
    """Return the plural of a noun in lower case. A plural noun returns unchanged."""
    word = to_singular(word)
    if word in _WORDS.invariable:
        return word
    if word in _PAIRS.irregular:
        return _PAIRS.irregular[word]
    if word.endswith("y") and word[-2:-1] not in {"a", "e", "i", "o", "u", ""}:
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh", "z")) else f"{word}s"


def is_plural(word: str) -> bool:
    """Tell whether a noun in lower case is a plural. A noun with one form for both is none."""
    return word not in _WORDS.invariable and word != to_singular(word)


def has_one_form(word: str) -> bool:
    """Tell whether a noun in lower case has one form for singular and plural: "series"."""
    return word in _WORDS.invariable


def read_noun(text: str, start: int) -> tuple[tuple[str, ...], int]:
    """Return the words of the noun phrase at `start`, in lower case, and where it ends.

    The words are empty if there is no noun phrase of 1 to 4 plain words.
    """
    words: list[str] = []
    end = start
    while len(words) <= MAX_NOUN_WORDS and (match := _EN.word.match(text, end)):
        word = _plain_word(match[1])
        if word in _WORDS.stop or (words and word == "number" and _EN.counted.match(text, match.end())):
            break
        if word.endswith("'s") and word[:-2] in _WORDS.stop:
            break
        if word.endswith("'s"):  # "my favorite song's Africa"
            words.append(word[:-2])
            end = match.end() - 2
            break
        words.append(word)
        end = match.end()
    if len(words) > 1 and words[-1] == "list":
        del words[-1]
    plain = 0 < len(words) <= MAX_NOUN_WORDS and all(word.isascii() and "'" not in word for word in words)
    return (tuple(words), end) if plain and not words[-1].isdigit() else ((), end)


def _plain_word(word: str) -> str:
    """Return a word in lower case, without accents, in American spelling."""
    word = word.casefold()
    if not word.isascii():
        word = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return _PAIRS.spellings.get(word, word)
