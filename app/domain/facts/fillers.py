"""Words that open a sentence and say nothing about its facts: "hi", "just so you know", "actually", "please"."""

from dataclasses import dataclass
from typing import Final

from app.domain import english

_EN: Final = english.patterns("facts", "fillers")


@dataclass(frozen=True, slots=True)
class Opened:
    """The words after a sentence's opening. `asks`: it had "can you" or the like; `corrects`: it had "actually"."""

    rest: str
    asks: bool
    corrects: bool


def strip_fillers(text: str) -> Opened:
    """Return `text` without the words that open it and say nothing."""
    at = 0
    asks = False
    corrects = False
    while True:
        if match := _EN.correcting.match(text, at):
            corrects = True
        elif match := _EN.asking.match(text, at):
            asks = True
        else:
            match = _EN.signs.match(text, at) or _EN.opening.match(text, at)
        if not match:
            return Opened(text[at:].rstrip(), asks, corrects)
        at = match.end()


def drop_asides(line: str) -> str:
    """Return lines without remarks between values: "red and, of course, blue" is "red and blue". Linear.

    "Not only red but also blue" is "red and also blue".
    """
    line = _EN.after_noun.sub("", line)
    line = _EN.last_of_all.sub(" and ", line)
    line = _EN.aside.sub(lambda match: match["joint"] or ",", line)
    line = _EN.and_comma.sub(" and ", _EN.aside_in_dashes.sub("", line))
    return _EN.not_only.sub(r"\g<value> and also ", line)


def is_blank(text: str) -> bool:
    """Tell whether a text has no word and no quotation mark. It may have emoji."""
    return _EN.blank.fullmatch(text) is not None
