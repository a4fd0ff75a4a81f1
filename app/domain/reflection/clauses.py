"""The clauses of a turn that its speaker states, which both the gate and the capture of facts read.

Questions, suppositions, quotations, code, reports of what others say, and the text after a colon are no statements.
The words are English. Everything takes linear time.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from app.domain.text_rules import normalise_text

_QUOTED: Final = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)")
_CODE: Final = re.compile(r"[{}=<>`\\]|;$|\w\(|\s--?\w+\s|\bSELECT\b|^(?:git|def|import|npm|pip|sudo)\s")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n")
_HEADING: Final = re.compile(r"^(?:update|fyi|note|decision|final decision|reminder|important)\s?:\s", re.IGNORECASE)
"""Words that may stand before a colon without making the rest another's words or an example."""
_SUPPOSED: Final = re.compile(
    r"\b(?:if|whether|suppose|supposing|imagine|pretend|assume|unless|would have|hypothetically|maybe|perhaps|possibly"
    r"|probably|apparently|i (?:guess|suppose|wonder|wish|doubt|hope(?! to))|i (?:think|believe|feel|heard|don't think)"
    r"(?! of)|not (?:sure|true|saying)|let's say|for example|in case|provided that|as long as)\b"
)
_OPENING_SUPPOSED: Final = re.compile(r"(?:when|once|as soon as|say|were|had|should)\s(?:i|we|my|our|the)\b")
_REPORTS: Final = re.compile(
    r"\b(?:says?|said|tells?|told|claims?|claimed|thinks?|believes?|write (?:to|that)|writes|wrote|according|rumou?r"
    r"|horoscope|wants? (?:us|me) to)\b"
)
_MATERIAL: Final = re.compile(
    r"\b(?:translate|summari[sz]e|proofread|rewrite|paraphrase|act as|role-?play|complete the sentence|(?:my|the) draft"
    r"|following (?:text|sentences?|paragraphs?)|(?:text|draft|email|mail|letter) below|this (?:dialogue|sentence)"
    r"|(?:write|tell|make) (?:me )?an? (?:story|poem|song|joke|cover letter|dialogue)|we play|play a game"
    r"|test message|in (?:this|the) (?:scenario|game|story|play))\b"
)
"""A turn that gives a text to work on, or plays a part: its sentences need not be the speaker's own."""
_WITHDRAWN: Final = re.compile(
    r"(?:no,? wait|wait|scratch that|not really|or rather|just kidding|actually,? no|that (?:is|was) (?:what|the old)"
    r"|in my dreams|at least in|i mean\b(?! it)|correction)\b"
)
"""Words that open a sentence that takes back the one before it."""
_JOKES: Final = re.compile(r"\b(?:haha\w*|lol|kidding|joking|jk)\b|[😂🤣🙄😜😉]")
_CLAUSE: Final = re.compile(
    r",(?!\d)\s*|;\s*|\s[-–—]+\s|\s(?:and|but|so|because|though|since|that|as)\s(?=(?:i|im|my|we|our)\b)", re.IGNORECASE
)
_JOINED: Final = re.compile(r"(?:and|but|so)\b", re.IGNORECASE)
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
    return any(pattern.search(read) for pattern, read in ((_CODE, plain), (_JOKES, low), (_MATERIAL, low)))


def split_statements(text: str) -> Iterator[Sentence]:
    """Yield the sentences that state something. A turn with code, a joke or a text to work on states nothing."""
    if states_nothing(text):
        return
    plain = normalise_text(text)
    sentences = [*_SENTENCE.split(_QUOTED.sub(' " ', plain)), ""]
    for sentence, following in pairwise(sentences):
        if not _WITHDRAWN.match(following.casefold()) and (read := read_sentence(sentence)) is not None:
            yield read


def read_sentence(sentence: str) -> Sentence | None:
    """Return the statement in a sentence, or None if it is a question, a supposition or a guess."""
    heading = _HEADING.match(sentence)
    body = sentence[heading.end() :] if heading else sentence
    stated, colon, _ = body.partition(":")
    if colon and re.search(r"\d$", stated) and re.match(r"\d", body[len(stated) + 1 :]):  # a time of day
        stated = body
        colon = ""
    low = stated.casefold()
    if sentence.rstrip().endswith("?") or _SUPPOSED.search(low) or _OPENING_SUPPOSED.match(low):
        return None
    clauses = tuple(_split_clauses(stated))
    for at, clause in enumerate(clauses):
        if _REPORTS.search(clause.text.casefold()):  # the rest of the sentence may be another's words
            clauses = clauses[:at] if clause.joined else ()
            break
    return Sentence(clauses, '"' in stated, bool(colon)) if clauses else None


def _split_clauses(stated: str) -> Iterator[Clause]:
    start = 0
    joined = False
    for match in _CLAUSE.finditer(stated):
        yield Clause(stated[start : match.start()], joined)
        start = match.end()
        joined = match[0].strip(" ,;").lower() in _CONNECTORS or _JOINED.match(stated, start) is not None
    yield Clause(stated[start:], joined)
