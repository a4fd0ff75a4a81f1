"""The parser of the rule for replaced statements: subject, what is said of it, and words that tell of a change."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from app.domain import english
from app.domain.memory import word_lists as words
from app.domain.memory.phrases import Kind, Word, every_word, iterate_words
from app.domain.recall import change_words as change

_CHANGE: Final = english.words("memory", "change_words")
_LISTED: Final = english.words("memory", "word_lists")
_EN: Final = english.patterns("memory", "statements")

MAX_CHARACTERS: Final = 500
"""The number of characters read of a statement. A fact is shorter."""
SILENT: Final = frozenset({Kind.SEPARATOR, Kind.BE, Kind.FUNCTION, Kind.PREPOSITION, Kind.DIRECTION, Kind.PRONOUN})
"""The kinds of words that tell neither subject nor value."""
NUMERIC: Final = frozenset({Kind.NUMBER, Kind.FIXED, Kind.DATE})
CHANGES: Final = _CHANGE.cues | change.PAIR_WORDS
"""Words that tell of a change."""
_NAMES: Final = frozenset({Kind.NAME, Kind.CAPITAL, Kind.USER})
_VERBS: Final = (
    _LISTED.verbs
    | _CHANGE.auxiliaries
    | _CHANGE.copulas
    | _CHANGE.adverbs
    | _CHANGE.irregular
    | CHANGES
    | _CHANGE.holding
    | _CHANGE.limiting
    | _CHANGE.choosing
    | _CHANGE.other_verbs
)
_MAX_SUBJECT: Final = 8
_MAX_OPENING: Final = 10
_FIRST: Final = 2
_ENDINGS: Final = ("ment", "ing", "ed", "ly", "y", "e")
_WORD: Final = re.compile(r"\w+")
_CUE_FORMS: Final = frozenset(f"{cue}{end}" for cue in _CHANGE.cues | {"new", "since"} for end in ("", "s", "es"))
_CUE_PAIRS: Final = (*(frozenset(pair) - {"day"} for pair in change.CUE_PAIRS), frozenset({"from", "on"}))
"""The words of which a text that tells of a change has some, in all forms that become a cue."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed statement.

    - `subject`: the words before the verb; `said`: the words from the verb on. Neither has articles or separators.
    - `names`, `owners`, `nouns`: keys of the subject; in "Nora's sister Karin" Karin, Nora and sister.
    - `is_own`: it speaks in the first person. `is_open`: it asks or only considers.
    - `adds`, `changes`, `negates`: it adds to something, tells of a change, or says that something has ended.
    - `keys`: those of all words. `word_roots`: their roots. `name_roots`, `subject_roots`: those of names and subject.
    """

    subject: tuple[Word, ...]
    said: tuple[Word, ...]
    names: frozenset[str]
    owners: frozenset[str]
    nouns: frozenset[str]
    is_own: bool
    is_open: bool
    adds: bool
    changes: bool
    negates: bool
    keys: frozenset[str]
    name_roots: frozenset[str]
    subject_roots: frozenset[str]
    word_roots: frozenset[str]

    @property
    def all_words(self) -> tuple[Word, ...]:
        """All words after the opening."""
        return self.subject + self.said


def parse_statement(text: str) -> Parsed:
    """Parse the first MAX_CHARACTERS of `text`. Takes linear time."""
    return _parse_start(text[:MAX_CHARACTERS])


@lru_cache(maxsize=4096)  # an answer compares each of its candidates with many others
def _parse_start(text: str) -> Parsed:
    text = _EN.label.sub("", text, count=1)
    found = every_word(text)
    keys = [word.key for word in found]
    pairs = set(pairwise(keys))
    body = _without_opening(found)
    end = _subject_end(body)
    subject = _without_separators(body[:end])
    said = _without_separators(body[end:])
    names, owners, nouns = _subject_keys(subject)
    negates = bool({"anymore", "stopped", "stop", "quit"} & set(keys)) or ("no", "longer") in pairs
    changes = bool(
        any(_is_cue(found, at) for at in range(len(found))) or change.CUE_PAIRS & pairs or _EN.from_on.search(text)
    )
    return Parsed(
        subject=subject,
        said=said,
        names=names,
        owners=owners,
        nouns=nouns,
        is_own=_EN.own.search(text) is not None,
        is_open=text.rstrip().endswith("?") or _only_considers(found),
        adds=bool(_CHANGE.additions & set(keys)),
        changes=changes or negates or any(word.key == "new" for word in subject),
        negates=negates,
        keys=frozenset(word.key for word in subject + said),
        name_roots=frozenset(map(root_of, names)),
        subject_roots=frozenset(map(root_of, names | owners | nouns)),
        word_roots=roots_of(subject + said),
    )


@lru_cache(maxsize=8192)
def may_tell_change(text: str) -> bool:
    """Tell whether `parse_statement` may find that a text tells of a change. It only looks which words there are."""
    if not text.isascii():
        return True
    found = set(_WORD.findall(text[:MAX_CHARACTERS].lower()))
    return not found.isdisjoint(_CUE_FORMS) or any(found.issuperset(pair) for pair in _CUE_PAIRS)


@lru_cache(maxsize=8192)
def first_keys(text: str) -> tuple[str, ...] | None:
    """Return the keys of the first two words that `parse_statement` finds, None if they need the whole statement.

    They need it behind an opening, and beside a word that tells of a change. Forms of "be" in the second place are left
    out, because they are all one.
    """
    found: list[str] = []
    for word in iterate_words(_EN.label.sub("", text[:MAX_CHARACTERS], count=1)):
        if word.key in _CHANGE.openings or word.key in _CHANGE.timeless:
            return None
        if word.kind is not Kind.SEPARATOR:
            found.append(word.key)
        if len(found) == _FIRST:
            break
    return tuple(found[:1]) if _CHANGE.copulas.issuperset(found[1:]) else tuple(found)


@lru_cache(maxsize=8192)
def root_of(key: str) -> str:
    """Return what forms of one word share: "open" and "opening", "German" and "Germany", "move" and "moved"."""
    key = key.removesuffix("'s")
    if len(key) < 5 or not key.isalpha():
        return key.removesuffix("e") if len(key) == 4 else key
    key = key[:-1] if key[-1] == "s" and key[-2] not in "siu" else key
    for ending in _ENDINGS:
        if key.endswith(ending) and len(key) - len(ending) >= 3:
            key = key[: -len(ending)]
            break
    return key[:-1] if len(key) > 3 and key[-1] == key[-2] and key[-1] not in "ls" else key


def roots_of(found: Iterable[Word]) -> frozenset[str]:
    """Return the roots of the words."""
    return frozenset(root_of(word.key) for word in found)


def is_numeric(word: Word) -> bool:
    """Tell whether a word is a number, a date or a time; "meeting" and "now" are none."""
    return word.kind in NUMERIC and word.key not in words.UNDATED


def is_verb(word: Word) -> bool:
    """Tell whether a word can be the verb of a statement."""
    key = word.key
    return key != "new" and (
        word.kind is Kind.BE
        or key in _VERBS
        or (word.kind not in _NAMES and len(key) > 4 and key.endswith("ed") and key != "preferred")
    )


def _without_opening(found: Sequence[Word]) -> Sequence[Word]:
    """Drop a first clause that only says when or why: "As of January", "Since the move, "."""
    if not found or found[0].key not in _CHANGE.openings:
        return found
    cut = next((at for at, word in enumerate(found[:_MAX_OPENING]) if word.kind is Kind.SEPARATOR), 0)
    if not cut:
        cut = next((at for at, w in enumerate(found) if at and not is_numeric(w) and w.key not in {"of", "on"}), 0) - 1
        return found[cut + 1 :] if cut > 0 else found
    rest = found[cut + 1 :]
    return rest if any(map(is_verb, rest)) else found


def _subject_end(body: Sequence[Word]) -> int:
    for at, word in enumerate(body[: _MAX_SUBJECT + 1]):
        if at and is_verb(word):
            return at
        if at == 1 and word.plural and body[0].kind in _NAMES and not body[0].key.endswith("'s"):
            return at
    return min(2, len(body))


def _is_cue(found: Sequence[Word], at: int) -> bool:
    """Tell whether the word at `at` tells of a change: "left" after its subject, "since" before a reason."""
    key = found[at].key
    before = found[at - 1].key if at else ""
    if key == "left":
        return at == 1 or before in {"and", "has", "have", ",", "already", "now"}
    if key == "since":
        return at + 1 < len(found) and not is_numeric(found[at + 1]) and found[at + 1].key not in _CHANGE.points
    return key in _CHANGE.cues


def _only_considers(found: Sequence[Word]) -> bool:
    beside = zip(found, [*found[1:], None], [None, *found], strict=False)
    return any(
        w.key in _CHANGE.hedges or (w.key == "may" and not any(o and is_numeric(o) for o in (after, before)))
        for w, after, before in beside
    )


def _without_separators(found: Iterable[Word]) -> tuple[Word, ...]:
    return tuple(word for word in found if word.kind is not Kind.SEPARATOR)


def _subject_keys(subject: Sequence[Word]) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return names, owners and nouns. A name before a noun ("the Kiel account") counts as a noun."""
    names: set[str] = set()
    owners: set[str] = set()
    nouns: set[str] = set()
    for at, word in enumerate(subject):
        following = subject[at + 1] if at + 1 < len(subject) else None
        if word.kind in _NAMES and word.key.endswith("'s"):
            owners.add(word.key.removesuffix("'s"))
        elif word.kind in _NAMES:
            (nouns if following is not None and following.kind is Kind.CONTENT else names).add(word.key)
        elif word.kind not in SILENT and not is_numeric(word) and word.key not in _CHANGE.cues:
            nouns.add(word.key)
    return frozenset(names), frozenset(owners), frozenset(nouns)
