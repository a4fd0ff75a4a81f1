"""The clauses of a turn that its speaker states, which both the gate and the capture of facts read.

Questions, suppositions, quotations, code, reports of what others say, and the text after a colon are no statements.
The words are English. Everything takes linear time.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from app.domain import english
from app.domain.text_rules import normalise_text

_EN: Final = english.patterns("reflection", "clauses")

_CONNECTORS: Final = frozenset({"and", "but", "so"})


class Clause(NamedTuple):
    """A clause with its capitals. `joined`: "and", "but" or "so" links it to the clause before it."""

    text: str
    joined: bool


class Sentence(NamedTuple):
    """The clauses that a sentence states. `quotes`: it has quoted words. `labels`: a colon follows what it states."""

    clauses: tuple[Clause, ...]
    quotes: bool
    labels: bool


def states_nothing(text: str) -> bool:
    """Tell whether a turn has code, a joke or a text to work on: its sentences need not be the speaker's own."""
    plain = normalise_text(text)
    low = plain.casefold()
    return any(pattern.search(read) for pattern, read in ((_EN.code, plain), (_EN.jokes, low), (_EN.material, low)))


def split_statements(text: str) -> Iterator[Sentence]:
    """Yield the sentences that state something. A turn with code, a joke or a text to work on states nothing."""
    if states_nothing(text):
        return
    plain = normalise_text(text)
    sentences = [*_EN.sentence.split(_EN.quoted.sub(' " ', plain)), ""]
    for sentence, following in pairwise(sentences):
        if not _EN.withdrawn.match(following.casefold()) and (read := read_sentence(sentence)) is not None:
            yield read


def read_sentence(sentence: str) -> Sentence | None:
    """Return the statement in a sentence, or None if it is a question, a supposition or a guess."""
    heading = _EN.heading.match(sentence)
    body = sentence[heading.end() :] if heading else sentence
    stated, colon, _ = body.partition(":")
    if colon and re.search(r"\d$", stated) and re.match(r"\d", body[len(stated) + 1 :]):  # a time of day
        stated = body
        colon = ""
    low = stated.casefold()
    if sentence.rstrip().endswith("?") or _EN.supposed.search(low) or _EN.opening_supposed.match(low):
        return None
    clauses = tuple(_split_clauses(stated))
    for at, clause in enumerate(clauses):
        if _EN.reports.search(clause.text.casefold()):  # the rest of the sentence may be another's words
            clauses = clauses[:at] if clause.joined else ()
            break
    return Sentence(clauses, '"' in stated, bool(colon)) if clauses else None


def _split_clauses(stated: str) -> Iterator[Clause]:
    start = 0
    joined = False
    for match in _EN.clause.finditer(stated):
        yield Clause(stated[start : match.start()], joined)
        start = match.end()
        joined = match[0].strip(" ,;").lower() in _CONNECTORS or _EN.joined.match(stated, start) is not None
    yield Clause(stated[start:], joined)
