"""Notes that a user lays down: requests to remember, standing orders to the agent, and dated events of the family.

A note that cannot be put into the third person is kept in the user's own words, in quotation marks. A marker must open
the sentence, so that a report, a question or an example is no note. The words are English. Everything takes linear
time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from app.domain import english
from app.domain.reflection.clauses import states_nothing
from app.domain.text_rules import one_line, sentence_ends

_FORMS: Final = english.forms("reflection", "notes")
_EN: Final = english.patterns("reflection", "notes")
_DISCLOSURE: Final = english.words("reflection", "disclosure")
FICTION: Final = _EN.fiction
_OF_CONVERSATION: Final = re.compile(
    rf"\b(?:the|this|that|these|those|your|its) (?:{'|'.join(sorted(_DISCLOSURE.conversation_nouns))})\b", re.IGNORECASE
)

NoteForm = Literal["note", "order", "family_date"]
MAX_NOTE: Final = 200
"""The longest note in characters. A longer text is no note to keep."""
_MIN_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class Note:
    """A note of a user: its form, and the user's words to keep."""

    form: NoteForm
    quote: str


def read_notes(message: str) -> Iterator[Note]:
    """Yield the notes of a message, in order. A message with code, a joke or a text to work on has none."""
    if states_nothing(message) or _EN.fiction.search(message):
        return
    start = 0
    text = one_line(message)
    for end in (*sentence_ends(text), len(text)):
        sentence = text[start:end].strip()
        start = end
        if 0 < len(sentence) <= MAX_NOTE + 80 and '"' not in sentence and (note := _read_sentence(sentence)):
            yield note


def _read_sentence(sentence: str) -> Note | None:
    if words := _read_remember(sentence):
        return Note("note", words)
    if sentence.endswith("?"):
        tail = _EN.asking_tail.search(sentence)
        dated = _read_family_date(sentence[: tail.start()]) if tail else None
        return Note("family_date", dated) if dated else None
    plain = sentence.rstrip(" .!")
    if words := _read_order(plain):
        return Note("order", words)
    dated = _read_family_date(plain)
    return Note("family_date", dated) if dated else None


def _read_remember(sentence: str) -> str | None:
    """Return the words that a request to remember names."""
    found = _EN.remember.match(sentence.rstrip(" .!"))
    if found is None:
        return None
    what = found["what"].strip()
    asks = found["asks"].casefold().startswith(("can", "could", "would", "will"))
    if what.endswith("?") and not asks:
        return None
    what = what.rstrip("?").strip()
    if found["bare"] and not found["joint"].strip() and not _EN.own_start.match(what) and not _EN.states.search(what):
        return None  # "remember the milk", "remember when …"
    while trailing := _EN.trailing.search(what):
        what = what[: trailing.start()]
    if (
        len(what.replace("'", " ").split()) < _MIN_WORDS  # "I'm vegan" has three
        or len(what) > MAX_NOTE
        or (_EN.no_content.match(what) and not found["joint"].strip(" ,"))
    ):
        return None
    if (
        re.match(r"(?:when|how|what|who|why|to|me|film|movie|song|guy)\b", what, re.IGNORECASE)
        and found["joint"] != ":"
    ):
        return None
    if _OF_CONVERSATION.search(what) and not re.search(r"\d", what):
        return None
    return what


def _read_order(sentence: str) -> str | None:
    """Return the words of a standing order to the agent. An order for the task at hand is none."""
    for pattern in _FORMS.order:
        if (found := pattern.match(sentence)) is None:
            continue
        order = found["order"].strip(" ,")
        while trailing := _EN.trailing.search(order):
            order = order[: trailing.start()]
        head = _EN.stands.sub("", order.partition(",")[0])
        if (
            _EN.moment.search(head)
            or _EN.no_order.search(head)
            or _OF_CONVERSATION.search(head)
            or len(order) > MAX_NOTE
        ):
            return None
        used = _EN.used.match(order)
        if used and not re.match(r"(?:always|never)\b", order, re.IGNORECASE) and not _EN.manner.search(used["object"]):
            return None
        return order
    return None


def _read_family_date(sentence: str) -> str | None:
    """Return the words that give an event of the user's family a date."""
    if _EN.unreal.search(sentence):
        return None
    for pattern in _FORMS.family:
        found = pattern.match(sentence)
        date = _EN.date.search(sentence, found.start("said")) if found else None
        if found is None or date is None:
            continue
        aside = _EN.aside.search(sentence, date.end())
        said = sentence[found.start("said") : aside.start() if aside else len(sentence)].strip(" ,")
        if _EN.event.search(said) and len(said) <= MAX_NOTE:
            return said
    return None
