"""Standing instructions: sentences in which a user tells the assistant how to answer from now on.

"Always answer in German." holds for every answer, "When I ask for code, use TypeScript." under its condition. The order
must open its sentence, so that a report, a question, an example or a quotation is none. In doubt there is none. The
words of English are in `phrasebooks/en/memory.toml`, those of other languages in the section `instructions` of their
phrasebook. Everything takes linear time.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Final

from app.domain import english
from app.domain.languages import ENGLISH, UNDETERMINED, detect_language
from app.domain.memory.batches import MAX_TAGS
from app.domain.memory.memory import Memory, MemoryType
from app.domain.phrasebooks.phrasebook import Phrasebook, fold, phrasebooks_for, split_sentences
from app.domain.text_rules import one_line, sentence_ends

_EN: Final = english.patterns("memory", "instructions")

TAG: Final = "standing-instruction"
"""The tag of a memory that states a standing instruction."""
INTRODUCTION: Final = "The user's rule"
"""The words before a rule that capture keeps."""
MAX_CHARACTERS: Final = 600
"""A longer text states no instruction."""
_LONGEST_SENTENCE: Final = 300
_MOST_COMMAS: Final = 4
"""Commas of a condition: "When I ask about trains, buses or trams, …"."""
_CODE: Final = re.compile(r"```|^[ \t]{0,8}(?:[>#|]|//|def |import )", re.MULTILINE)
_OPENING_QUOTES: Final = tuple("\"'“„«‹「『")
_RULE: Final = re.compile(rf"{INTRODUCTION}(?:: \"| is )")
_PAIRED_QUOTES: Final = re.compile(r"(?P<opens>[“„«‹「『]|(?<!\w)'(?=\w))|(?P<closes>[”»›」』]|(?<=[\w.,!?…])'(?!\w))")
_EDGES: Final = " ,;:.!…。！、-–—~"


@dataclass(frozen=True, slots=True)
class Instruction:
    """A standing instruction: its sentence, and the part that tells when it applies; None: it always applies."""

    text: str
    condition: str | None = None


def orders_language(text: str) -> bool:
    """Tell whether an instruction orders the language of answers, in English: "Always answer in German."."""
    return _EN.answer_language.search(text[:MAX_CHARACTERS].lower()) is not None


def is_marked(tags: Sequence[str]) -> bool:
    """Tell whether a memory has the mark of an instruction."""
    return TAG in tags


def mark_instruction(
    text: str, type_: MemoryType, role: str | None, actor_id: str | None, user_id: str, tags: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the tags of a memory, with the mark if its user states an instruction in it.

    A turn of the assistant, of a tool, of another actor or without a role is none of the user's.
    """
    if is_marked(tags) or type_ not in (MemoryType.turn, MemoryType.semantic):
        return tags
    if len(tags) >= MAX_TAGS:
        return tags
    if type_ is MemoryType.turn and text.startswith(INTRODUCTION):
        return tags  # users speak of themselves in the first person
    roles = ("user",) if type_ is MemoryType.turn else (None, "user")
    is_own = role in roles and actor_id in (None, user_id, "user")
    return (*tags, TAG) if is_own and read_instruction(text) is not None else tags


def remark_instruction(before: Memory, text: str) -> tuple[str, ...]:
    """Return the tags of a memory that gets a text. It loses a mark that it owes to its old one.

    With an equal text the tags stay: a person may have taken the mark away.
    """
    if text == before.text:
        return before.tags
    owed = read_instruction(before.text) is not None
    tags = tuple(tag for tag in before.tags if tag != TAG) if owed else before.tags
    return mark_instruction(text, before.type, before.role, before.actor_id, before.user_id, tags)


def merge_tags(old: tuple[str, Sequence[str]], new: tuple[str, Sequence[str]], text: str) -> tuple[str, ...]:
    """Return the tags of two memories, each its text and tags, that become one memory with the text `text`.

    A mark that both owe to their texts alone goes if `text` is no instruction.
    """
    tags = tuple(dict.fromkeys((*old[1], *new[1])))
    marked = [said for said, its_tags in (old, new) if is_marked(its_tags)]
    if not marked or read_instruction(text) is not None or any(read_instruction(said) is None for said in marked):
        return tags
    return tuple(tag for tag in tags if tag != TAG)


@lru_cache(maxsize=4096)
def read_instruction(text: str) -> Instruction | None:
    """Return the first standing instruction that a text states, or None."""
    if len(text) > MAX_CHARACTERS:
        return None
    if _RULE.match(text):
        found = _EN.condition.search(text)
        return Instruction(text, text[found.start() :].rstrip(' ".') if found else None)
    if detect_language(text) == ENGLISH:
        return next(_read_english(text), None)
    return next(_read_foreign(text), None)


def _read_english(text: str) -> Iterator[Instruction]:
    """Yield the instructions of an English text. What forbids one is only looked for if a sentence orders something."""
    start = 0
    line = one_line(text)
    for end in (*sentence_ends(line), len(line)):
        sentence = line[start:end].strip()
        before = line[:start]
        start = end
        if not 0 < len(sentence) <= _LONGEST_SENTENCE:
            continue
        found = _read_sentence(sentence)
        if found is None or _is_quoted(before):
            continue
        if _EN.material.search(text.lower()):
            return
        yield found


def _is_quoted(before: str) -> bool:
    """Tell whether a quotation is open at the end of a text."""
    depth = 0
    for found in _PAIRED_QUOTES.finditer(before):
        depth = depth + 1 if found["opens"] else max(depth - 1, 0)
    return depth > 0 or before.count('"') % 2 == 1


def _read_sentence(sentence: str) -> Instruction | None:
    """Return the instruction of an English sentence."""
    plain = sentence.rstrip(" .!")
    if plain.endswith("?") or plain.startswith(_OPENING_QUOTES):
        return None
    opens = _EN.opens.match(plain)
    body = plain[opens.end() :] if opens else plain
    condition = _find_condition(body)
    if condition is None and not _is_order(body, plain):
        return None
    return None if _EN.barred.search(plain) else Instruction(sentence, condition or None)


def _find_condition(body: str) -> str | None:
    """Return the condition under which a sentence orders something. None if it has none, or orders nothing."""
    lasting = _EN.lasting.match(body)
    rest = body[lasting.end() :] if lasting else body
    found = _EN.condition.search(rest)
    if found is None:
        return None
    if found.start() == 0:
        comma = found.end()
        for _ in range(_MOST_COMMAS):
            comma = rest.find(",", comma)
            if comma < 0:
                return None
            if _orders(rest[comma + 1 :].lstrip()):
                return rest[:comma]
            comma += 1
        return None
    firm = _EN.firm.match(rest) or _EN.refused.match(rest)
    if firm is not None:
        return None if _EN.no_verb.match(rest, firm.end()) else rest[found.start() :]
    return rest[found.start() :] if lasting is not None and _orders(rest) else None


def _is_order(body: str, plain: str) -> bool:
    """Tell whether a sentence orders something for all answers."""
    lasting = _EN.lasting.match(body)
    if lasting is not None:
        return _orders(body[lasting.end() :])
    firm = _EN.firm.match(body)
    refused = _EN.refused.match(body)
    if firm is not None:
        is_answer = _EN.of_answers.match(body, firm.end()) is not None
        to_assistant = _EN.order.match(body, firm.end()) and _EN.to_assistant.search(plain)
        return is_answer or bool(to_assistant) or _orders_past(body, firm.end())
    if refused is not None and ((refused["ever"] and _EN.to_assistant.search(plain)) or _EN.no_more.search(body)):
        return _EN.order.match(body, refused.end()) is not None
    if _EN.until_told.search(body):
        return _orders(body)
    return _EN.stops.match(body) is not None and _EN.often.search(body) is not None


def _orders(words: str) -> bool:
    """Tell whether words begin with a verb of an order, perhaps behind softening words."""
    softly = _EN.softly.match(words)
    return _EN.order.match(words, softly.end() if softly else 0) is not None


def _orders_past(body: str, start: int) -> bool:
    """Tell whether the verb is in the past tense of a wish: "I'd prefer it if you never used …"."""
    return body.lower().startswith("i'd prefer") and _EN.to_assistant.search(body, start) is not None


@dataclass(frozen=True)
class _Language:
    """The rules of one other language: forms of whole sentences, each with the group `when` if it has a condition."""

    book: Phrasebook

    @property
    def _section(self) -> Mapping[str, Any]:
        return self.book.sections["instructions"]

    def _compile(self, pattern: str) -> re.Pattern[str]:
        words = {name: value for name, value in self._section.items() if isinstance(value, str)}
        return self.book.compile(pattern, **words)

    @cached_property
    def _forms(self) -> list[re.Pattern[str]]:
        opened = r"(?:(?>(?:{open}|{softly}){end}[ ,.!:、。！]*))*"  # atomic: a word in both lists is tried once
        return [self._compile(f"{opened}(?:{form})") for form in self._section["forms"]]

    @cached_property
    def _barred(self) -> re.Pattern[str]:
        return self._compile(r"{word}(?:{barred}){end}")

    def read_text(self, text: str) -> Iterator[Instruction]:
        """Yield the instructions of a text in this language."""
        if self._barred.search(fold(text)):
            return
        start = 0
        for sentence in split_sentences(text):
            start = text.index(sentence, start)
            is_quoted = _is_quoted(text[:start])
            start += len(sentence)
            low = fold(sentence)
            if is_quoted:
                continue
            if len(sentence) > _LONGEST_SENTENCE or low[-1] in "?？" or low.startswith(("¿", *_OPENING_QUOTES)):
                continue
            low = low.rstrip(_EDGES)
            for form in self._forms:
                if (found := form.match(low)) is not None:
                    start, end = found.span("when") if "when" in form.groupindex else (-1, -1)
                    yield Instruction(sentence, sentence[start:end].strip(_EDGES) if start >= 0 else None)
                    break


@cache
def _language_of(book: Phrasebook) -> _Language | None:
    return _Language(book) if "instructions" in book.sections else None


def _read_foreign(text: str) -> Iterator[Instruction]:
    """Yield the instructions of a text in another language, if it has a phrasebook and can be told."""
    if detect_language(text) == UNDETERMINED or _CODE.search(text):
        return
    for book in phrasebooks_for(text):
        if (language := _language_of(book)) is not None:
            yield from language.read_text(text)
