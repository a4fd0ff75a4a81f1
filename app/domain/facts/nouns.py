"""English nouns: their singular, their plural, and the noun phrase that follows "my favorite"."""

import re
import unicodedata
from typing import Final

from app.domain.facts.phrases import NUMBER, word_set

MAX_NOUN_WORDS: Final = 4
_INVARIABLE: Final = word_set("series species fish sheep deer music news software furniture clothing jewelry")
_IRREGULAR: Final = {
    **{"person": "people", "man": "men", "woman": "women", "child": "children", "mouse": "mice", "goose": "geese"},
    **{"foot": "feet", "tooth": "teeth", "knife": "knives", "leaf": "leaves", "loaf": "loaves", "wolf": "wolves"},
    **{"shelf": "shelves", "potato": "potatoes", "tomato": "tomatoes", "hero": "heroes", "lens": "lenses"},
    **{"quiz": "quizzes", "bus": "buses", "cactus": "cacti"},
}
_SINGULARS: Final = {plural: singular for singular, plural in _IRREGULAR.items()}
_IE: Final = word_set(
    "movie cookie brownie smoothie zombie pie tie calorie hoodie veggie genie selfie rookie indie foodie"
)
_SPELLINGS: Final = {
    **{"colour": "color", "flavour": "flavor", "colours": "colors", "flavours": "flavors"},
    **{"programme": "program", "programmes": "programs"},
}
_WORD: Final = re.compile(r" ?(\w[\w'/&-]{0,39})(?![\w'/&-])")
_COUNTED: Final = re.compile(rf" {NUMBER}(?!\w)", re.IGNORECASE)
_STOP: Final = word_set("""
    is are was were am be been being will would might may can could should must shall has have had do does did
    include includes including isn't aren't wasn't weren't won't don't doesn't changes change becomes remains
    for of to in from that on with at by about around as than into over under during after before between among
    i you he she it we they me my your his her our their who whom which what when where while why how and or but
    nor so because since if unless not no never always also still currently now probably maybe perhaps last next
    yesterday today tonight tomorrow ago lately ever again called named rated spelled pls plz thx growing
    anymore any instead too though yet either already used just really actually definitely please thanks these
    this those right stays comes except excluding besides minus rn atm fr ngl tbh imo imho lol lmao btw omg haha ofc
    ranked sorted ordered listed gotta goes remain means mean says
    """)
"""Words that end a noun phrase."""
OTHER_NOUNS: Final = word_set("""
    boost boot brook boos candi candle caddy cindy cite claus clube clue cub colin colon colony cone corn coil cork cook
    conor color colour crypt fail file fill firm fool flock fleck flood fold foot ford moine morton motown move moved
    navel nobel noel pictured serie serve server sheet shoe shop shot shown show slow snow skate slate sing son sling
    stade stage stake stale stall stare start stat stated staten statue status stave static sweat sweep sweater swept
    tack tea teal tear tease temp term texa ton tone trace tract tracy trade train tram trick truck trunk tub tube tuna
    tuned tunic tunis turn twin taken toke tower
    """)
"""Nouns that differ by one letter from a noun of a shipped topic. None is a typo of that noun."""
EMPTY_HEADS: Final = word_set("thing part one way time place memory person kind type bit aspect moment reason list")
"""Nouns that name no topic."""


def to_singular(word: str) -> str:
    """Return the singular of a noun in lower case. A singular noun returns unchanged."""
    if word in _INVARIABLE or word.endswith(("ss", "us", "is")):
        return word
    if word in _SINGULARS:
        return _SINGULARS[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-1] if word[:-1] in _IE else f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "xes", "sses", "zzes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and len(word) > 2 else word


def to_plural(word: str) -> str:
    """Return the plural of a noun in lower case. A plural noun returns unchanged."""
    word = to_singular(word)
    if word in _INVARIABLE:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("y") and word[-2:-1] not in {"a", "e", "i", "o", "u", ""}:
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh", "z")) else f"{word}s"


def is_plural(word: str) -> bool:
    """Tell whether a noun in lower case is a plural. A noun with one form for both is none."""
    return word not in _INVARIABLE and word != to_singular(word)


def has_one_form(word: str) -> bool:
    """Tell whether a noun in lower case has one form for singular and plural: "series"."""
    return word in _INVARIABLE


def read_noun(text: str, start: int) -> tuple[tuple[str, ...], int]:
    """Return the words of the noun phrase at `start`, in lower case, and where it ends.

    The words are empty if there is no noun phrase of 1 to 4 plain words.
    """
    words: list[str] = []
    end = start
    while len(words) <= MAX_NOUN_WORDS and (match := _WORD.match(text, end)):
        word = _plain_word(match[1])
        if word in _STOP or (words and word == "number" and _COUNTED.match(text, match.end())):
            break
        if word.endswith("'s") and word[:-2] in _STOP:
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
    return _SPELLINGS.get(word, word)
