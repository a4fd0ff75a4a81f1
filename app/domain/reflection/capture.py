"""Capture: facts that a user states so plainly that no model is needed to store them.

A clause is captured if it discloses a fact (self_disclosure.py), is certain and complete, stays true on another day,
can be said in the third person, and a rule of `config/capture.yaml` names the category of its words. In doubt, nothing
is captured: a missed fact is still in its turn, but a wrong one would be believed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from app.domain import english
from app.domain.consent.profile_fields import ProfileField, sensitive_fields
from app.domain.languages import ENGLISH, detect_language
from app.domain.memory.instructions import read_instruction
from app.domain.memory.memory import MemoryType
from app.domain.memory.same_fact import content_stems, negation_words
from app.domain.reflection.clauses import Clause, Sentence, split_statements
from app.domain.reflection.grounding import find_foreign
from app.domain.reflection.notes import Note, NoteForm, read_notes
from app.domain.reflection.phrasebook_capture import read_disclosures, read_foreign_note
from app.domain.reflection.plain_forms import USER, is_plain, rewrite_clause
from app.domain.reflection.self_disclosure import FORMS, Form, classify_clause
from app.domain.reflection.writing_rules import broken_rule
from app.domain.settable import Range, RangedPolicy, check_ranges
from app.domain.text_rules import TextLimits, one_line

_EN: Final = english.patterns("reflection", "capture")
_WORDS: Final = english.words("reflection", "capture")
_DISCLOSURE: Final = english.words("reflection", "disclosure")

MAX_PER_TURN: Final = 10
_INTRODUCTIONS: Final[Mapping[NoteForm, str]] = {
    "note": "The user's note",
    "order": "The user's rule",
    "family_date": "A date of the user's family",
}
"""The words before a note that stays as the user said it."""
_TAIL_WORDS: Final = 4
"""Maximum words of a part after a comma that belongs to the clause before it ("two daughters, Mia and Zoe")."""
_READ_TAILS: Final = 12
"""Maximum tails of a clause: before each one it is read again, to see whether it still discloses a fact."""


@dataclass(frozen=True, slots=True)
class CaptureRule:
    """A rule of the table: clauses of this form, with one of these words, become facts of this category.

    `words` are compared with the head of a trait, a possession or something owned, and with every word of the other
    forms; without `words`, each clause of the form matches. `negated`: only with (or only without) a negation.
    """

    form: Form
    category: str
    words: tuple[str, ...] = ()
    negated: bool | None = None
    importance: Annotated[int, Range(1, 5)] = 2

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"unknown form {self.form!r}; it is one of {', '.join(FORMS)}")
        check_ranges(self)
        if wrong := [word for word in self.words if word != word.casefold() or not _EN.word.fullmatch(word)]:
            raise ValueError(f"words must be single words in lower case: {', '.join(wrong)}")

    def applies_to(self, statement: "Statement") -> bool:
        """Tell whether the form, the words and the negation of a statement match."""
        if self.form != statement.form or self.negated not in (None, statement.negated):
            return False
        return not self.words or not statement.heads.isdisjoint(self.words)


@dataclass(frozen=True, slots=True)
class CapturePolicy(RangedPolicy):
    """The table of rules, of which the first match counts, and the limits. Longer turns and turns with several
    paragraphs are skipped.

    `per_turn: 0` switches capture off.
    """

    rules: tuple[CaptureRule, ...] = ()
    max_characters: Annotated[int, Range(1)] = 1000
    per_turn: Annotated[int, Range(0, MAX_PER_TURN)] = 3
    per_user_day: Annotated[int, Range(0)] = 100

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of the rules, each once."""
        return tuple(dict.fromkeys(rule.category for rule in self.rules))


@dataclass(frozen=True, slots=True)
class Statement:
    """A certain clause. `text` is in the third person, `quote` has the user's words, `heads` decide its category.

    `noted`: the user asked to remember it, so that it is kept also if no rule matches its form.
    """

    form: Form
    text: str
    quote: str
    heads: frozenset[str]
    negated: bool
    noted: bool = False


@dataclass(frozen=True, slots=True)
class CapturedFact:
    """A statement with the category and the importance that its rule gives."""

    text: str
    quote: str
    category: str
    importance: int


@dataclass(frozen=True, slots=True)
class Capture:
    """The plain statements of a turn: facts, and values of fields that only the user's own decision sets."""

    facts: Sequence[CapturedFact] = ()
    fields: Sequence[ProfileField] = ()


def capture_facts(message: str, policy: CapturePolicy, limits: TextLimits, profile: str = "profile") -> Capture:
    """Return the facts that a message plainly states, in its order, at most `per_turn`.

    A statement with a sensitive field is no fact, whatever the table says. `profile` is the category of such fields.
    """
    if policy.per_turn == 0:
        return Capture()
    facts: list[CapturedFact] = []
    fields: list[ProfileField] = []
    for statement in find_statements(message, policy, limits):
        rule = _find_rule(statement, policy)
        category = profile if rule is None else rule.category
        about_user = statement.text.startswith(USER)  # "The project is called …" names no user
        if sensitive := sensitive_fields(statement.text, statement.quote, category, profile) if about_user else []:
            fields += sensitive
        elif rule is not None:
            facts.append(CapturedFact(statement.text, statement.quote, rule.category, rule.importance))
    if not facts and not fields and len(message) <= policy.max_characters:
        told = _capture_in_own_words(message, policy, limits)
        if told.facts or told.fields or (fact := _capture_instruction(message, policy, limits)) is None:
            return told
        return Capture([fact])
    return Capture(facts[: policy.per_turn], fields)


def _capture_in_own_words(message: str, policy: CapturePolicy, limits: TextLimits) -> Capture:
    """Return what a message in another language plainly states, in the user's own words."""
    told = read_disclosures(message)
    fields = [ProfileField(one.field, one.value) for one in told if one.field is not None]
    rules = [(one.quote, one.category, one.importance) for one in told if one.field is None]
    note = read_foreign_note(message)
    if note is not None and not any(one.quote in note or note in one.quote for one in told):
        rule = next((rule for rule in policy.rules if rule.form == "note" and not rule.words), None)
        rules += [] if rule is None else [(note, rule.category, rule.importance)]
    facts = [
        CapturedFact(_as_sentence(quote), quote, category, importance)
        for quote, category, importance in rules
        if category in policy.categories and len(quote) < limits.semantic
    ]
    return Capture(facts[: policy.per_turn], fields)


def _capture_instruction(message: str, policy: CapturePolicy, limits: TextLimits) -> CapturedFact | None:
    """Return the standing instruction of a message, in the user's own words: in English as a rule of theirs."""
    if (found := read_instruction(message)) is None:
        return None
    quote = found.text.rstrip(" .!。！")
    statement = _quote_note(Note("order", quote), limits)
    rule = _find_rule(statement, policy) if statement is not None else None
    if statement is None or rule is None:
        return None
    text = statement.text if detect_language(message) == ENGLISH else _as_sentence(quote)
    return CapturedFact(text, quote, rule.category, rule.importance)


def _as_sentence(quote: str) -> str:
    """Return the user's words with a capital and a full stop, in a script that has them."""
    return f"{quote[0].upper()}{quote[1:]}." if quote[-1].isascii() or quote[0].lower() != quote[0].upper() else quote


def _find_rule(statement: Statement, policy: CapturePolicy) -> CaptureRule | None:
    """Return the first rule that matches a statement. If none does, a statement to remember gets the rule of notes."""
    rule = next((rule for rule in policy.rules if rule.applies_to(statement)), None)
    if rule is None and statement.noted:
        note = replace(statement, form="note", heads=_all_words(statement.text))
        return next((rule for rule in policy.rules if rule.applies_to(note)), None)
    return rule


def is_captured(text: str, quote: str, captured: Iterable[CapturedFact]) -> bool:
    """Tell whether a sentence that a model drew from `quote` repeats what capture has stored from the same turn.

    It does if both say the same content words, or if the sentence comes from the captured words alone and adds no name,
    number or negation to them.
    """
    return any(_says_no_more(text, quote, fact) for fact in captured)


def _says_no_more(text: str, quote: str, fact: CapturedFact) -> bool:
    stems = content_stems(text)
    known = content_stems(f"{fact.text} {fact.quote}")
    if bool(negation_words(text)) != bool(negation_words(fact.text)):
        return False
    if stems <= known:
        return True
    if one_line(quote).casefold().strip(" .!") not in one_line(fact.quote).casefold():
        return False
    return find_foreign(text, f"{fact.text} {fact.quote}") is None


def find_statements(message: str, policy: CapturePolicy, limits: TextLimits) -> list[Statement]:
    """Return the certain statements of a message, also those without a rule."""
    if len(message) > policy.max_characters or "\n\n" in message or _EN.other_voice.search(message):
        return []
    statements = [
        statement
        for sentence in split_statements(message)
        if not (sentence.quotes or sentence.labels)
        for clause in _plain_clauses(sentence)
        if (statement := _read_statement(clause, limits)) is not None
    ]
    notes = [_read_note(note, limits) for note in read_notes(message)]
    ruled = [statement for statement in statements if _find_rule(statement, policy) is not None]
    return _join_notes(statements, ruled, [note for note in notes if note is not None])


def _read_note(note: Note, limits: TextLimits) -> Statement | None:
    """Return a note in the third person, or else as the user said it. None if it breaks a writing rule.

    The user's own words about a sensitive field are never kept: only the statement about the field is returned.
    """
    if named := _EN.call_me.search(note.quote):
        return Statement("belonging", f"{USER} is called {named['name']}.", note.quote, frozenset({"called"}), False)
    if (private := _find_private(note, limits)) is not None:
        return private
    if note.form == "note" and (plain := _read_statement(note.quote, limits)) is not None:
        whole = _EN.word.findall(plain.quote)[-1:] == _EN.word.findall(note.quote)[-1:]
        return replace(plain, noted=True) if whole else _quote_note(note, limits)
    if note.form == "family_date" and _EN.own.match(note.quote):
        text = rewrite_clause(note.quote, "belonging")
        if text is not None and broken_rule(text, MemoryType.semantic, limits) is None:
            return Statement(note.form, text, note.quote, _all_words(text), _is_negated(text))
    return _quote_note(note, limits)


def _find_private(note: Note, limits: TextLimits) -> Statement | None:
    """Return the statement of a note about a sensitive field of the user, or None."""
    for sentence in split_statements(note.quote):
        for clause in _plain_clauses(sentence):
            statement = _read_statement(clause, limits)
            if statement is not None and sensitive_fields(statement.text, statement.quote):
                return statement
    return None


def _quote_note(note: Note, limits: TextLimits) -> Statement | None:
    text = f'{_INTRODUCTIONS[note.form]}: "{note.quote}".'
    if broken_rule(text, MemoryType.semantic, limits) is not None:
        return None
    return Statement(note.form, text, note.quote, _all_words(note.quote), _is_negated(note.quote))


def _join_notes(
    statements: Sequence[Statement], ruled: Sequence[Statement], notes: Sequence[Statement]
) -> list[Statement]:
    """Return the statements and the notes, but only one of two that overlap: usually the note, which has more words.

    A standing rule in the third person replaces the order in the user's own words. Only statements that a rule matches
    (`ruled`) replace a note.
    """
    kept = [
        note
        for note in notes
        if not any(one.form == "rule" or note.quote in one.quote for one in ruled if _overlap(one, note))
    ]
    others = [
        one
        for one in statements
        if not any(_overlap(one, note) for note in kept if note.form != "order" or one.form == "rule")
    ]
    return [*others, *kept]


def _overlap(one: Statement, other: Statement) -> bool:
    left = one.quote.rstrip(" .!")
    right = other.quote.rstrip(" .!")
    return left in right or right in left


def _plain_clauses(sentence: Sentence) -> Iterator[str]:
    """Yield the clauses that nothing before them makes doubtful. A short list after a comma belongs to its clause."""
    clean = True
    for part in _join_tails(sentence.clauses):
        text = part.text.strip()
        form = classify_clause(text)
        if (clean or part.joined) and form is not None:
            yield text
        clean = form is not None or _only_opens(text)


def _join_tails(clauses: Iterable[Clause]) -> Iterator[Clause]:
    """Yield the clauses, each joined with its tails."""
    before = Clause("", False)
    texts = list[str]()
    for clause in clauses:
        if texts and _is_tail(clause) and (len(texts) > _READ_TAILS or classify_clause(", ".join(texts)) is not None):
            texts.append(clause.text)
            continue
        if texts:
            yield before._replace(text=", ".join(texts))
        before = clause
        texts = [clause.text]
    if texts:
        yield before._replace(text=", ".join(texts))


def _is_tail(clause: Clause) -> bool:
    words = clause.text.casefold().split()
    if (
        not 0 < len(words) <= _TAIL_WORDS
        or clause.joined
        or words[0] in _WORDS.tail_barred | {"i", "i'm", "my", "we", "our"}
    ):
        return False
    return words[0] != "the" and classify_clause(clause.text) is None


def _only_opens(text: str) -> bool:
    low = _EN.greeting.sub("", text.casefold())
    return all(word in _DISCLOSURE.openers for word in _EN.word.findall(low))


def _read_statement(clause: str, limits: TextLimits) -> Statement | None:
    quote = _without_opening(clause)
    form = classify_clause(quote)
    text = None if form is None else rewrite_clause(quote, form)
    if (
        form is None
        or text is None
        or not is_plain(form, text)
        or broken_rule(text, MemoryType.semantic, limits) is not None
    ):
        return None
    return Statement(form, text, quote.strip(), _head_words(form, text), _is_negated(text))


def _is_negated(text: str) -> bool:
    return re.search(r"\b(?:not|no|never|cannot|longer)\b", text) is not None


def _all_words(text: str) -> frozenset[str]:
    return frozenset(word.casefold().removesuffix("'s") for word in _EN.word.findall(text))


def _without_opening(clause: str) -> str:
    """Return the clause from its subject on, without greetings ("Ok, by the way")."""
    text = clause.strip()
    while True:
        low = text.casefold()
        first = _EN.word.match(low)
        if low.startswith("by the way"):
            text = text[len("by the way") :].lstrip(" ,")
        elif first is not None and first[0] in _DISCLOSURE.openers:
            text = text[first.end() :].lstrip(" ,:!")
        else:
            return text


def _head_words(form: Form, text: str) -> frozenset[str]:
    """Return the words that decide the category: the head of the complement, the thing owned, or every word."""
    words = [word.casefold().removesuffix("'s") for word in _EN.word.findall(text)]
    rest = words[2:]
    if form == "belonging":
        stop = next((n for n, word in enumerate(rest) if word in _DISCLOSURE.possession_verbs and n), len(rest))
        return frozenset(rest[:stop])
    if form not in ("trait", "possession"):
        return frozenset(words)
    rest = [word for word in rest if word not in {"is", "has", "does", "not", "been", "have"} | _DISCLOSURE.adverbs]
    if rest[:1] == ["on"]:
        return frozenset(rest)
    stop = next((n for n, word in enumerate(rest) if word in _WORDS.head_ends and n), len(rest))
    return frozenset(rest[:stop])
