"""Signs that a sentence about favorites states nothing about the user: jokes, conditions, reports, texts to work on."""

import re
from collections.abc import Sequence
from typing import Final

from app.domain import english

_EN: Final = english.patterns("facts", "look_alikes")
_WORDS: Final = english.words("facts", "look_alikes")


def tells_state(value: str, noun: Sequence[str]) -> bool:
    """Tell whether words after "my favorite … is" tell how or where the thing is, and do not name it."""
    words = re.findall(r"[\w'%-]+", value[:200])
    if not words or not noun:
        return False
    head = noun[-1]
    if words[0] in _WORDS.demonyms:
        return len(words) == 1 and head in _WORDS.people | _WORDS.titled
    if _EN.score.match(value):
        return head in _WORDS.people
    if head in _WORDS.qualities:
        return False
    if _EN.measure.match(value):
        return True
    if not words[0].islower():
        return False
    if _EN.described.match(value) or (head not in _WORDS.dishes and _EN.with_word.match(value)):
        return True
    if words[-1] == "free" and len(words) == 2:
        return True
    return head not in _WORDS.activities and (_EN.placed.match(f"{value} ") is not None or _opens_state(words))


def _opens_state(words: Sequence[str]) -> bool:
    """Tell whether these words begin with a participle or an adjective that is never a name."""
    if len(words) > 1 and (words[0] in _WORDS.intensive or words[0].endswith("ly")):
        words = words[1:]
    first = words[0]
    following = words[1] if len(words) > 1 else ""
    participle = (first.endswith("ing") and len(first) > 5 and first not in _WORDS.names_in_ing) or first == "dying"
    if participle and following[:1].isupper():
        return True
    past = first.endswith("ed") and len(first) > 4 and first not in _WORDS.names_in_ed
    alone = not following or following in _WORDS.links or following[0].isdigit()
    return alone and (participle or past or first in _WORDS.states)


def marks_joke(sentence: str) -> bool:
    """Tell whether a sentence has a mark of sarcasm, of a joke or of a world that is not real."""
    return _EN.joke.search(sentence) is not None or _EN.unreal.search(sentence) is not None


def casts_doubt(words: str) -> bool:
    """Tell whether words before a statement make it a condition, a report, a question or a part of a text."""
    return _EN.doubt.search(words) is not None


def hands_over_text(sentence: str) -> bool:
    """Tell whether what follows a sentence is a text to work on, or the text of somebody else."""
    opens = sentence.rstrip(" \"'").endswith((":", "-", "–", "—"))
    return (opens and _EN.given_text.search(sentence) is not None) or _EN.text_task.search(sentence) is not None


def find_doubt(words: str) -> int | None:
    """Return the end of the first words that cast doubt on what follows, or None."""
    match = _EN.doubt.search(words)
    return match.end() if match else None


def is_given_text(words: str) -> bool:
    """Tell whether words name a text or what somebody wrote or said: "Here is my bio"."""
    return _EN.given_text.search(words) is not None


def takes_back(sentence: str) -> bool:
    """Tell whether a sentence without a favorite takes back the sentence before it: "Scratch that, blue."."""
    return _EN.taken_back.match(sentence) is not None and "fav" not in sentence.lower()


def opens_fiction(sentence: str) -> bool:
    """Tell whether a sentence opens a story, a supposition or a role."""
    return _EN.fiction.match(sentence) is not None


def asks_further(rest: str) -> bool:
    """Tell whether the rest of a sentence, after a statement, asks about something else than its truth."""
    return _EN.further_question.match(rest) is not None
