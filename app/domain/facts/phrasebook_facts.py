"""Questions for favorites, and what takes them back, in the languages of the phrasebooks.

A sentence is read only if one of the language's forms covers it. A message with words of doubt, of another voice or of
another time states nothing in the sentence where they stand.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Final, Literal

from app.domain.facts.cleaning import clean_message
from app.domain.facts.fact import Entry, FactOperation, QuestionPart
from app.domain.facts.phrasebook_forms import EDGES, LONGEST_VALUE, MY, OLD_MARK, FactForms, Marked, Mention
from app.domain.facts.retractions import KnownFact, ThreadOperation
from app.domain.phrasebooks.phrasebook import Shape, all_phrasebooks, fold, split_sentences

_LONGEST_QUESTION: Final = 300
READ: Final = 4000
LONGEST_SENTENCE: Final = 400
MOST_SENTENCES: Final = 40
_ITEM: Final = re.compile(r"\s*(?:(?:#|n[o°º]\.? ?)?\d{1,2}[.):]|[-*•–])\s+(?P<value>\S.*)")
ENDS: Final = " .!…。！"


_LEADING: Final = frozenset({"is_mine", "also", "removed"})
"""The forms whose value stands before the mention."""


class FactStatements(FactForms):
    """The reader of what a message in one language states about favorites."""

    _opening = Shape(r"(?:{word}{open}{end}[ ,.!:、。！]*)*")

    @cached_property
    def _statements(self) -> list[tuple[str, re.Pattern[str]]]:
        names = ("replaced", "removed", "asked_off", "also", "asked_on", "is_mine", "told")
        return [(name, form) for name in names for form in self.forms(name)]

    @cached_property
    def _then(self) -> list[re.Pattern[str]]:
        return self.forms("then")

    @cached_property
    def _starts(self) -> re.Pattern[str]:
        """The place before a mention where a new clause begins."""
        if not self.book.spaced:
            return re.compile(rf"[、,:：]\s*(?={MY})")
        return self.compile(rf"(?:[,;:–—]\s*(?:(?:{{and}})\s+)?|\s(?:{{and}})\s+)(?={MY})")

    def read_statements(self, text: str, max_rank: int) -> tuple[FactOperation, ...]:
        """Return what a message does to stored facts, in order."""
        message = clean_message(text[:READ])
        low = fold(message)
        if self.mention.search(low) is None or self.book.voice.search(low) is not None:
            return ()
        operations: list[FactOperation] = []
        lines = message.split("\n")
        for at, line in enumerate(lines):
            asked = ""
            for sentence in split_sentences(line)[:MOST_SENTENCES]:
                told = f"{asked} {sentence}" if asked else sentence
                operations += self._read_sentence(told, lines[at + 1 :], max_rank)
                asked = f"{sentence[:-1]}:" if self._only_asks(sentence) else ""
        return tuple(operations)

    def _only_asks(self, sentence: str) -> bool:
        """Tell whether a sentence is a mention and a question mark: its user answers it in the next one."""
        if sentence[-1] not in "?？" or len(sentence) > LONGEST_SENTENCE:
            return False
        low = self.mark(sentence).low
        return re.fullmatch(rf"{MY}\s?[?？]", low) is not None

    def _read_sentence(self, sentence: str, below: Sequence[str], max_rank: int) -> Iterator[FactOperation]:
        if len(sentence) > LONGEST_SENTENCE or sentence[-1] in "?？":
            return
        marked = self.mark(sentence)
        if not marked.mentions or self.book.doubt.search(marked.low) is not None:
            return
        starts = [
            0,
            *(found.end() for found in self._starts.finditer(marked.low) if self._may_start(marked.low, found)),
        ]
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            low = marked.low[start:end]
            text = marked.text[start:end]
            if end is not None:
                low = re.sub(rf"(?:[,;:–—]\s*)?(?:\s(?:{fold(self.book.parts['and'])}))?\s*$", "", low)
                text = text[: len(low)]
            low = self.tail.sub("", low.rstrip(ENDS)).rstrip(f"{ENDS},;")
            text = text[: len(low)]
            mention = self.mention_in(marked, low)
            if mention is not None:
                yield from self._read_clause(text, low, mention, below, max_rank)

    def _may_start(self, low: str, found: re.Match[str]) -> bool:
        """Tell whether the user goes on speaking: before a colon may stand nothing but an opening."""
        return found[0].lstrip()[:1] not in ":：" or self._opening.fullmatch(low, 0, found.start()) is not None

    def _read_clause(
        self, text: str, low: str, mention: Mention, below: Sequence[str], max_rank: int
    ) -> Iterator[FactOperation]:
        for name, form in self._statements:
            found = form.fullmatch(low)
            if found is None and name in {"is_mine", "also", "removed"}:
                found = self._match_behind_comma(form, low)
            if found is None:
                continue
            start, end = found.span("value") if "value" in form.groupindex else (0, 0)
            if start == 0 and not mention.many and re.search(r"[,;:]\s|[、；：]", low[start:end]):
                found = self._match_behind_comma(form, low)  # the value stands in the last clause
                if found is None:
                    continue
                start, end = found.span("value")
            rank = self.rank_in(found) or mention.rank
            named = replace(mention, rank=rank, many=mention.many and rank is None)
            operation = self._operation(name, named, text[start:end], below, max_rank)
            if operation is None:
                continue
            yield operation
            if name == "told" and not mention.many:
                yield from self._read_then(text[start:end], mention)
            return

    def _match_behind_comma(self, form: re.Pattern[str], low: str) -> re.Match[str] | None:
        """Match a form behind the last comma or colon, where its own clause begins."""
        at = max(low.rfind(sign) for sign in [", ", ": ", "、", "；"])
        return form.fullmatch(low, at + 1 + (low[at + 1 : at + 2] == " ")) if at >= 0 else None

    def _read_then(self, value: str, mention: Mention) -> Iterator[FactOperation]:
        """Read "…, und die zweite ist …" behind a statement."""
        low = fold(value)
        for form in self._then:
            found = form.search(low)
            rank = self.rank_of(found["rank"]) if found else None
            if found and rank and (name := self.read_value(value[found.start("value") :], mention.topic_key)):
                yield FactOperation("put", mention.topic_key, ((rank, name),))
                return

    def _operation(
        self, name: str, mention: Mention, value: str, below: Sequence[str], max_rank: int
    ) -> FactOperation | None:
        topic = mention.topic_key
        leads = name in _LEADING
        if name == "told" and not value.strip(EDGES):
            values = [found["value"] for line in _items_of(below) if (found := _ITEM.match(line))]
            values = [self.clean_value(item, topic) for item in values if len(item) <= LONGEST_VALUE]
        elif mention.many or not self.book.spaced or name in {"also", "asked_on", "asked_off", "removed"}:
            values = self.read_values(value, topic, leads=leads)
            several = (mention.many and self.book.spaced) or (len(values) > 1 and mention.rank is None)
            mention = replace(mention, many=several)
        else:
            values = [read for read in [self.read_value(value, topic, leads=leads)] if read]
        if not values:
            return None
        return _compose(name, mention, values[:max_rank])


def _compose(name: str, mention: Mention, values: Sequence[str]) -> FactOperation | None:
    topic = mention.topic_key
    plain: tuple[Entry, ...] = tuple((None, value) for value in values)
    if name in {"removed", "asked_off"}:
        return FactOperation("remove", topic, plain)
    if name in {"also", "asked_on"}:
        return FactOperation("append", topic, plain)
    if mention.rank is not None:
        return FactOperation("insert", topic, ((mention.rank, values[0]),)) if len(values) == 1 else None
    if mention.many:
        return FactOperation("list", topic, tuple(enumerate(values, 1)))
    return FactOperation("set", topic, plain[:1])


def _items_of(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if _ITEM.match(line) is None:
            return
        yield line


class FactLanguage(FactStatements):
    """The reader of one language: statements, questions and retractions of favorites."""

    _requests = Shape(r"(?:{word}{open}{end}[ ,.!:]*)*{request}{end}|.*{request_end}[\s.!。！]*$")
    """A request without a question mark: its first words, or its last ones."""
    _numbers = Shape("{number}")
    cue = Shape(r"{word}(?:{cue}){end}")
    """Words without which a message takes nothing back."""
    _others = Shape(r"(?:{word}{open}{end}[ ,.!:]*)*{others}{end}")
    _polite_request = Shape(r"(?:{open}[ ,]*)*(?:{polite_request}){end}")

    @cached_property
    def _asking(self) -> re.Pattern[str]:
        """A question: a mention and nothing but words that ask for it."""
        between = r"[\s,.?!？。！、¿¡:~〜…'’-]*"
        pieces = f"{{number}}|(?P<last>{{last}})|(?P<all>{{all}})|{{ask}}|{{bare}}|{MY}"
        return self.compile(rf"{between}(?:(?:{{word}}(?:{pieces}){{end}}){between})*")

    def read_question(self, text: str) -> QuestionPart | None:
        """Return what a question asks for, None for any other text."""
        if len(text) > _LONGEST_QUESTION or self.mention.search(fold(text)) is None:
            return None
        marked = self.mark(" ".join(text.split()))
        if len(marked.mentions) != 1:
            return None
        found = self._asking.fullmatch(marked.low)
        if found is None or not (text.rstrip()[-1:] in "?？" or self._requests.match(marked.low)):
            return None
        mention = marked.mentions[0]
        rank = mention.rank
        if numbered := self._numbers.search(marked.low):
            rank = self.rank_in(numbered)
        if rank:
            return QuestionPart("rank", mention.topic_key, rank, self.book.code)
        if found["last"]:
            return QuestionPart("last", mention.topic_key, None, self.book.code)
        kind: Literal["list", "first"] = "list" if mention.many or found["all"] else "first"
        return QuestionPart(kind, mention.topic_key, None, self.book.code)

    @cached_property
    def _retractions(self) -> list[tuple[str, re.Pattern[str]]]:
        return [(name, form) for name in ("value_gone", "topic_gone", "corrected") for form in self.forms(name)]

    def read_doubt(self, text: str, known: Sequence[KnownFact]) -> list[ThreadOperation]:
        """Return the facts that a message may take back in words that no form has: they answer nothing from now on.

        A sentence of the user's own puts in doubt the values and topics that it names, if it has a word of a change.
        """
        doubted: dict[KnownFact, None] = {}
        for sentence in split_sentences(self.own_sentences(text))[:MOST_SENTENCES]:
            marked = self.mark(sentence, known)
            if self.cue.search(_without_marks(marked.low)) is None:
                continue
            topics = {mention.topic_key for mention in marked.mentions}
            named = [self.known_of(mark, known) for mark in re.findall(OLD_MARK, marked.low)]
            if not named and not topics and self._unread_favorite.search(marked.low):
                topics = {fact.topic_key for fact in known} - set(self.topics.values())
            doubted |= dict.fromkeys([*named, *(fact for fact in known if fact.topic_key in topics)])
        return [_of_thread(fact, "doubt", (fact.rank, fact.value)) for fact in doubted]

    @cached_property
    def _unread_favorite(self) -> re.Pattern[str]:
        """A favorite of the user whose noun the phrasebook does not have: it may be any topic that it does not have."""
        return self.compile(rf"{{word}}(?:{self.section.get('unread', '(?!)')}){{end}}")

    def own_sentences(self, text: str) -> str:
        """Return a message without the sentences that ask, suppose, or tell of another person."""
        if self.book.voice.search(fold(text[:READ])) is not None:
            return ""
        sentences = split_sentences(text[:READ])[:MOST_SENTENCES]
        return " ".join(sentence for sentence in sentences if self._is_own(sentence))

    def _is_own(self, sentence: str) -> bool:
        low = fold(sentence)
        if sentence[-1] in "?？" and not self._asks_to(sentence):
            return False
        return self.book.doubt.search(self._past.sub(" ", low)) is None and self._others.match(low) is None

    @cached_property
    def _past(self) -> re.Pattern[str]:
        """Words of what was so, which a statement may not have, but a message that puts it in doubt may."""
        return self.compile(rf"{{word}}(?:{self.section.get('past', '(?!)')}){{end}}")

    def may_retract(self, text: str) -> bool:
        """Tell whether a message has a word without which it takes nothing back."""
        return self.cue.search(fold(text[:READ])) is not None

    def read_retractions(self, text: str, known: Sequence[KnownFact]) -> list[ThreadOperation]:
        """Return what a message takes back or corrects."""
        low = fold(text[:READ])
        if not known or self.cue.search(low) is None or self.book.voice.search(low) is not None:
            return []
        result: list[ThreadOperation] = []
        for sentence in split_sentences(text[:READ])[:MOST_SENTENCES]:
            if len(sentence) > LONGEST_SENTENCE or (sentence[-1] in "?？" and not self._asks_to(sentence)):
                continue
            marked = self.mark(sentence, known)
            if self.book.doubt.search(_without_marks(marked.low)) is None:
                result += self._retract(marked, known)
        return result

    def _asks_to(self, sentence: str) -> bool:
        return self._polite_request.match(fold(sentence)) is not None

    def _retract(self, marked: Marked, known: Sequence[KnownFact]) -> list[ThreadOperation]:
        low = self.tail.sub("", marked.low.rstrip(f"{ENDS}?？")).rstrip(f"{ENDS},;")
        for name, form in self._retractions:
            found = form.fullmatch(low)
            if found is None:
                continue
            mention = self.mention_in(marked, low)
            if mention is None and "noun" in form.groupindex:
                mention = Mention(self.topics[found["noun"]], False, None)
            old = self.known_of(found["old"], known) if "old" in form.groupindex and found["old"] else None
            facts = [fact for fact in known if mention is None or fact.topic_key == mention.topic_key]
            if name == "topic_gone" and mention:
                return [_of_thread(fact, "remove") for fact in facts[:1]]
            if name == "value_gone" and old and old in facts:
                same = [fact for fact in facts if fold(fact.value) == fold(old.value)]
                return [_of_thread(fact, "remove", (None, fact.value)) for fact in same]
            if name == "corrected":
                about = old or next((fact for fact in facts if fact.latest), None)
                value = self.read_value(marked.text[slice(*found.span("value"))], about.topic_key if about else "")
                if about and value and fold(value) != fold(about.value):
                    return [_of_thread(about, "replace", (None, about.value), (about.rank, value))]
        return []


def _of_thread(fact: KnownFact, op: Literal["remove", "replace", "doubt"], *entries: Entry) -> ThreadOperation:
    return ThreadOperation(fact.thread_id, FactOperation(op, fact.topic_key, entries))


def _without_marks(low: str) -> str:
    return re.sub(r"[\ue000-\ue1ff]", " ", low)


@cache
def fact_languages() -> tuple[FactLanguage, ...]:
    """Return the languages whose phrasebook has forms of favorites."""
    return tuple(FactLanguage(book) for book in all_phrasebooks() if "facts" in book.sections)
