"""Statements about favorites in the languages of the phrasebooks.

A sentence is read only if one of the language's forms covers it. A message with words of doubt, of another voice or of
another time states nothing in the sentence where they stand.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from app.domain.facts.cleaning import clean_message
from app.domain.facts.fact import Entry, FactOperation
from app.domain.facts.phrasebook_forms import EDGES, LONGEST_VALUE, MY, FactForms, Mention
from app.domain.phrasebooks.phrasebook import Shape, fold, split_sentences

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
