"""Questions for favorites, and what takes them back, in the languages of the phrasebooks."""

import re
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Final, Literal

from app.domain.facts.fact import Entry, FactOperation, QuestionPart
from app.domain.facts.phrasebook_forms import MY, OLD_MARK, Marked, Mention
from app.domain.facts.phrasebook_statements import ENDS, LONGEST_SENTENCE, MOST_SENTENCES, READ, FactStatements
from app.domain.facts.retractions import KnownFact, ThreadOperation
from app.domain.phrasebooks.phrasebook import Shape, all_phrasebooks, fold, split_sentences

_LONGEST_QUESTION: Final = 300


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
