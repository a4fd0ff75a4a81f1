"""The evidence check: a model's verdict on a memory holds if the user's own words support it.

A false update destroys a memory, so a doubtful verdict is refused. The check reads English only; it runs in linear
time. Each refusal has a code that the turn's trace shows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from app.domain import english
from app.domain.memory import word_lists as words
from app.domain.memory.spellings import canonical_spelling
from app.domain.text_rules import normalise_text

_LISTED: Final = english.words("memory", "word_lists")
_PAIRS: Final = english.pairs("reflection", "evidence")
_EN: Final = english.patterns("reflection", "evidence")
_WORDS: Final = english.words("reflection", "evidence")

Refusal = Literal[
    "no_statement", "other_person", "second_thing", "unrelated", "value_not_said", "part_lost", "not_ended"
]
"""The reason why the user's words do not support a verdict."""
MAX_EVIDENCE: Final = 8000
"""Maximum characters of one message that are read: the evidence of a fact is short."""
MAX_BEFORE: Final = 4
"""Maximum earlier messages that are read."""

_CLOSING: Final[Mapping[str, str]] = {'"': '"', "“": "”", "«": "»"}
_RATHER: Final = frozenset({"instead", "rather"})


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the conversation. `role` is "user" or "assistant"."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The user's message, and the messages before it, oldest first."""

    text: str
    before: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class _Reading:
    """The words of the clauses in which the user states something of their own life.

    `roots` are their words, `values` the words without a negation before them. `around` are the words of the messages
    that the clauses refer to.
    """

    text: str = ""
    roots: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    around: frozenset[str] = frozenset()
    others: bool = False
    times: frozenset[int] = field(default_factory=frozenset)


def is_english(text: str) -> bool:
    """Return True if the text is probably English: its function words are, or it has too few words to tell."""
    letters = [char for char in text[:MAX_EVIDENCE] if char.isalpha()]
    if sum(char.isascii() for char in letters) < 0.9 * len(letters):
        return False
    tokens = _tokens(text)
    foreign = sum(token in _WORDS.foreign for token in tokens)
    english = sum(token in _WORDS.english for token in tokens)
    return english > foreign or (not foreign and len(tokens) <= 4)


def find_refusal(memory: str, text: str | None, evidence: Evidence) -> Refusal | None:
    """Return the reason why the evidence does not support a verdict on `memory`, or None if it does.

    `text` is the memory's new text; None if the memory is to be deleted.
    """
    reading = _read_evidence(memory, text or "", evidence)
    if not reading.roots:
        return "other_person" if reading.others else "no_statement"
    if text is None:
        return _refuse_deletion(memory, reading)
    return _refuse_update(memory, text, reading)


def _refuse_deletion(memory: str, reading: _Reading) -> Refusal | None:
    if not _is_linked(memory, reading):
        return "unrelated"
    topic = _topic_roots(memory)
    for clause in filter(_EN.ends.search, reading.text.split(" , ")):
        roots = {_root(token) for token in _tokens(clause)} | reading.around
        if not topic or any(_is_known(root, roots) for root in topic):
            return None  # one clause names the matter and its end
    return "not_ended"


def _refuse_update(memory: str, text: str, reading: _Reading) -> Refusal | None:
    old = _value_roots(memory)
    new = _value_roots(text)
    added = _hard_values(text) - old
    lost = _hard_values(memory) - new
    soft = {root for root in new - old - added if root not in _ENDING_ROOTS}
    about = [
        clause for clause in reading.text.split(" , ") if {_root(token) for token in _tokens(clause)} & (old | new)
    ]
    if (lost or soft) and _adds_second_thing(" , ".join(about)):
        return "second_thing"
    if any(not _is_said(value, reading) for value in added):
        return "value_not_said"
    unsaid = [root for root in soft if not _is_known(root, reading.values)]
    if len(unsaid) * 2 > len(soft) + len(added):
        return "value_not_said"
    if not _is_linked(memory, reading):
        return "unrelated"
    if len(lost - reading.roots - reading.around) > len(added) or _lost_people(memory, text) - reading.roots:
        return "part_lost"
    if _endings(text) - _endings(memory) and not _EN.ends.search(reading.text):
        return "not_ended"
    if not (added or soft) and not (_EN.ends.search(reading.text) or _reports_change(reading)):
        return "not_ended"
    return None


def _adds_second_thing(text: str) -> bool:
    """Tell whether a statement adds a second thing instead of replacing the first."""
    said = set(_tokens(text))
    return bool(_WORDS.second & said or _EN.second_thing.search(text)) and not _RATHER & said


def _read_evidence(memory: str, text: str, evidence: Evidence) -> _Reading:
    """Read the user's statements, and an assistant's message that the user confirms."""
    known = frozenset(_tokens(memory)) | {_root(token) for token in _tokens(memory)}
    new = frozenset(_tokens(text))
    clauses, others = _own_statements(evidence.text, known, new)
    before = [message for message in evidence.before if message.text][-MAX_BEFORE:]
    if before and before[-1].role == "assistant" and _confirms(evidence.text):
        clauses += [
            clause for sentence in _sentences(before[-1].text) for clause in _EN.clause.split(sentence.rstrip("?"))
        ]
    said = " , ".join(clauses)
    around: set[str] = set()
    if _EN.links_back.search(said) or len(_tokens(evidence.text)) <= 6 or _answers(evidence.text):
        around = {_root(token) for message in before for token in _tokens(message.text)}
    for message in before:
        if message.role == "user" and around:
            earlier, _ = _own_statements(message.text, known, new)
            clauses += earlier
    roots = frozenset(_root(token) for clause in clauses for token in _tokens(clause))
    values = frozenset(_root(token) for clause in clauses for token in _affirmed_tokens(clause))
    times = frozenset(time for clause in clauses for time in _times(clause))
    return _Reading(said, roots, values, frozenset(around), others, times)


def _own_statements(text: str, known: frozenset[str], new: frozenset[str]) -> tuple[list[str], bool]:
    """Return the clauses that state something of the user, and True if other clauses speak of another person."""
    if _EN.others_text.search(text[:MAX_EVIDENCE]):
        return [], False
    clauses = []
    others = False
    is_other = False
    for sentence in _sentences(_drop_quotations(text)):
        if _is_no_statement(sentence):
            continue
        for clause in filter(str.strip, _EN.clause.split(sentence)):
            is_other = _is_of_another(clause.strip(), known, new, is_other)
            others = others or is_other
            if not is_other:
                clauses.append(clause.strip())
    return clauses, others


def _drop_quotations(text: str) -> str:
    """Return a text with a space for each quotation. One of at most two words, such as a title, stays."""
    return "\n".join(map(_drop_quotations_in_line, text.split("\n")))


def _drop_quotations_in_line(line: str) -> str:
    kept = []
    at = 0
    unclosed = set()
    for opening in _EN.opening.finditer(line):
        if opening.start() < at or opening[0] in unclosed:
            continue
        end = line.find(_CLOSING[opening[0]], opening.end())
        if end < 0:  # no later one is closed either, so do not search for this sign again
            unclosed.add(opening[0])
            continue
        quoted = line[opening.start() : end + 1]
        kept += [line[at : opening.start()], quoted.strip('"“”«»') if len(quoted.split()) <= 2 else " "]
        at = end + 1
    return "".join((*kept, line[at:]))


def _sentences(text: str) -> Iterator[str]:
    clean = _EN.abbreviation.sub(r"\1", normalise_text(text[:MAX_EVIDENCE]).replace("’", "'"))
    return (sentence[0].strip() for sentence in _EN.sentence.finditer(clean) if sentence[0].strip())


def _is_no_statement(sentence: str) -> bool:
    """Tell whether a sentence asks, supposes, or says that something stays as it is."""
    if sentence.rstrip().endswith("?") or _EN.asks.match(sentence):
        return True
    said = {word.lower() for word in set(_EN.token.findall(sentence)) - {"May"}}
    if _WORDS.no_change & said or _EN.supposes.search(sentence):
        return True
    return bool(_EN.remains.search(sentence)) and not _EN.no_more.search(sentence)


def _is_of_another(clause: str, known: frozenset[str], new: frozenset[str], before: bool) -> bool:
    """Tell whether a clause speaks of another person than the memory does. `before`: the clause before it did."""
    if before and _EN.pronoun_subject.match(clause):
        return True
    if _EN.about_user.search(clause):
        return False
    named = _EN.named_subject.match(clause)
    if named and named[1].lower() not in known | new | _WORDS.stop | {"it", "that", "there"}:
        return named[1].lower() not in _LISTED.is_after
    subject = _EN.other_subject.match(clause)
    if subject is None:
        return False
    person = subject[1].lower().removesuffix("'s")
    if person in _WORDS.others:
        return person not in known and _root(person) not in known
    owned = re.match(r"(?:(?:my|our|the) )?[\w-]+(?:'s|s') ([\w-]+)", clause, re.IGNORECASE)
    return owned is not None and owned[1].lower() in _WORDS.others and owned[1].lower() not in known


def _confirms(text: str) -> bool:
    tokens = _tokens(text)
    if not tokens or text.rstrip().endswith("?") or {"but", "not", "no", "don't"} & set(tokens):
        return False
    return tokens[0] in _WORDS.confirms or (tokens[:1] == ["that's"] and not _WORDS.confirms.isdisjoint(tokens[1:3]))


def _answers(text: str) -> bool:
    return (_tokens(text) or [""])[0] in _WORDS.confirms | {"no", "nope", "not", "nah"}


def _is_linked(memory: str, reading: _Reading) -> bool:
    """Tell whether the statements speak of what the memory is about.

    For "The user's thesis is …", they must name the thesis. For other memories it is enough that the user reports a
    change.
    """
    head = _EN.head.match(memory)
    whole = _topic_roots(memory)
    topic = _topic_roots(head[1] if head else memory) or whole
    if not topic or any(_is_known(root, reading.roots) for root in topic):
        return True
    if any(_is_known(root, reading.around) for root in whole):
        return True
    return (
        head is None
        and bool(re.search(r"\b(?:i|we|i'm|i've|we're|we've)\b", reading.text, re.I))
        and (_reports_change(reading))
    )


def _reports_change(reading: _Reading) -> bool:
    return not _WORDS.changes.isdisjoint(_tokens(reading.text)) or bool(_EN.no_more.search(reading.text))


def _is_said(value: str, reading: _Reading) -> bool:
    if value in reading.values:
        return True
    minutes = _minutes(value)
    return minutes is not None and minutes in reading.times


def _is_known(root: str, said: Iterable[str]) -> bool:
    """Tell whether a word, or another word of its matter, is among `said`."""
    said = said if isinstance(said, (set, frozenset)) else set(said)
    return root in said or any(root in group and not group.isdisjoint(said) for group in _GROUP_ROOTS)


def _tokens(text: str) -> list[str]:
    clean = _EN.thousands.sub("", normalise_text(text[:MAX_EVIDENCE]).replace("’", "'"))
    return _EN.token.findall(_EN.ordinal.sub("", canonical_spelling(clean)).lower())


def _affirmed_tokens(clause: str) -> Iterator[str]:
    """Yield the words of a clause, without a negation and the two words after it."""
    denied = 0
    for token in _tokens(clause):
        denied = 3 if token in _WORDS.not_before or (token in {"of", "than"} and denied < 0) else denied - (denied > 0)
        if not denied:
            yield token
        if token in _RATHER:
            denied = -1


def _root(token: str) -> str:
    """Return a word without its endings, so that "moved", "moving" and "moves" agree."""
    token = token.removesuffix("'s").removesuffix("'")
    token = _PAIRS.irregular.get(token, token)
    if token in words.NUMBERS:
        return str(words.NUMBERS[token])
    if token in _PAIRS.ordinals:
        return _PAIRS.ordinals[token]
    if token.isdecimal():
        return token.lstrip("0") or "0"
    for suffix, instead in (("ies", "y"), ("ied", "y"), ("ing", ""), ("ers", ""), ("er", ""), ("ed", ""), ("es", "")):
        if token.endswith(suffix) and len(token) - len(suffix) >= 3:
            token = token.removesuffix(suffix) + instead
            break
    else:
        token = token.removesuffix("s") if len(token) > 3 and not token.endswith("ss") else token
    token = token.removesuffix("e") if len(token) > 3 else token
    return token[:-1] if len(token) > 3 and token[-1] == token[-2] else token


def _value_roots(text: str) -> set[str]:
    return {_root(token) for token in _tokens(text) if token not in _WORDS.stop}


def _hard_values(text: str) -> set[str]:
    """Return the roots of names, numbers, weekdays and months."""
    tokens = _EN.token.findall(_EN.thousands.sub("", normalise_text(text).replace("’", "'")))
    names = {token.lower() for token in tokens[1:] if token[:1].isupper() and token.lower() not in _WORDS.stop}
    dates = _LISTED.dates - _LISTED.only_order - _LISTED.vague_times - _WORDS.units
    found = {t for t in _tokens(text) if t[:1].isdigit() or t in words.NUMBERS or (t in dates and t != "now")}
    return {_root(token) for token in names | found} - {"1"}


def _topic_roots(text: str) -> set[str]:
    return {
        _root(token)
        for token in _tokens(text)
        if token not in _WORDS.stop | _WORDS.units | _LISTED.dates | _LISTED.occasions and not token[:1].isdigit()
        if token not in words.NUMBERS
    }


def _lost_people(memory: str, text: str) -> set[str]:
    """Return the people and animals that only the memory names."""
    old, new = ({_root(token) for token in _tokens(one)} for one in (memory, text))
    return {root for root in old - new if root in _PEOPLE_ROOTS}


def _endings(text: str) -> set[str]:
    return {token for token in _tokens(text) if token in _WORDS.endings or token.endswith("n't")}


def _times(clause: str) -> Iterator[int]:
    """Yield the times of the day in a clause, in minutes of a twelve-hour clock."""
    for found in _EN.clock.finditer(_EN.ordinal.sub("", canonical_spelling(clause)).lower()):
        part, way, hour, full, digits, minutes = found.groups()
        name = hour or full or digits
        value = int(name) if name.isdecimal() else int(words.NUMBERS.get(name, 99))
        if value > 24:
            continue
        extra = {"half": 30, "quarter": 15}.get(part or "", int(minutes or 0))
        yield (value * 60 + (-extra if way == "to" else extra)) % 720


def _minutes(value: str) -> int | None:
    hour, colon, minute = value.partition(":")
    return (int(hour) * 60 + int(minute)) % 720 if colon and hour.isdecimal() and minute.isdecimal() else None


_ENDING_ROOTS: Final = frozenset(map(_root, _WORDS.endings))
_PEOPLE_ROOTS: Final = frozenset(map(_root, (_WORDS.others | _LISTED.people) - {"twin", "ex", "people", "mate"}))
_GROUP_ROOTS: Final = tuple(frozenset(map(_root, (word, *others.split()))) for word, others in _PAIRS.groups.items())
