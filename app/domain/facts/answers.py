"""The answer to a question about facts: the facts that it asks for, and one sentence for each topic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain.facts.fact import Fact, FactKind, QuestionPart
from app.domain.facts.topics import FactTopics
from app.domain.phrasebooks.phrasebook import find_phrasebook
from app.domain.rendering.lines import fact_value

NOTHING_STORED = "I don't have that stored yet."
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


@dataclass(frozen=True, slots=True)
class FactAnswer:
    """The answer to a question. `facts` has the facts that it names, topic by topic and by rank.

    `asked` is False if the text is no question about facts; `text` is then empty. `is_settled`: every part of the
    question has an answer, or its topic is known and has no such rank. `is_doubted`: nothing is answered, because a
    later message touched a fact in words that were not read.
    """

    asked: bool = False
    text: str = ""
    facts: tuple[Fact, ...] = ()
    is_settled: bool = False
    is_doubted: bool = False

    @property
    def answered(self) -> bool:
        """True if at least one topic has what the question asks for."""
        return bool(self.facts)

    @property
    def topic_keys(self) -> frozenset[str]:
        """The topics of the facts."""
        return frozenset(fact.topic_key for fact in self.facts)


def choose_facts(facts: Sequence[Fact], thread_id: str | None, topic: str | None, *, across: bool) -> list[Fact]:
    """Return a user's facts of a topic by rank: of the thread, else (`across`) of that in which it was stated last.

    None is the topic that was stated last in the thread.
    """

    def pick(found: Sequence[Fact], thread: str | None) -> list[Fact]:
        return sorted((fact for fact in found if fact.thread_id == thread), key=lambda fact: fact.rank or 0)

    here = pick(facts, thread_id)
    if topic is None:
        topic = max(here, key=_stated_at).topic_key if here else None
    named = [fact for fact in facts if fact.topic_key == topic]
    if found := pick(named, thread_id):
        return found
    return pick(named, max(named, key=_stated_at).thread_id) if named and across else []


def _stated_at(fact: Fact) -> tuple[datetime, datetime]:
    return fact.created_at, fact.updated_at


def compose_answer(parts: Sequence[QuestionPart], stored: Sequence[Sequence[Fact]], topics: FactTopics) -> FactAnswer:
    """Return the answer to a question. `stored` has the facts of each part's topic, by rank."""
    chosen = [_facts_asked_for(part, facts) for part, facts in zip(parts, stored, strict=True)]
    is_settled = bool(parts) and all(
        found or (part.kind == "rank" and known) for part, known, found in zip(parts, stored, chosen, strict=True)
    )
    if not any(chosen):
        return FactAnswer(asked=bool(parts), text=_unknown(parts[0]) if parts else "", is_settled=is_settled)
    sentences = [_sentence(part, facts, topics) for part, facts in zip(parts, chosen, strict=True)]
    told = dict.fromkeys(fact for facts in chosen for fact in facts)
    return FactAnswer(True, " ".join(dict.fromkeys(sentences)), tuple(told), is_settled)


def _facts_asked_for(part: QuestionPart, facts: Sequence[Fact]) -> list[Fact]:
    if part.kind == "list":
        return _latest_form(facts)
    if part.kind == "first":
        return _latest_form(facts)[:1] if _starts_at_one(facts) else []
    if part.kind == "last":
        return _latest_form(facts)[-1:]
    highest = part.rank or 0
    if part.kind == "slice":
        return [fact for fact in facts if fact.rank is not None and fact.rank <= highest]
    return [fact for fact in facts if fact.rank == highest]


def _latest_form(facts: Sequence[Fact]) -> list[Fact]:
    """Return the list or the single value of a topic, whichever was stated later."""
    if not facts:
        return []
    latest = max(facts, key=lambda fact: fact.created_at).kind
    return [fact for fact in facts if fact.kind is latest]


def _starts_at_one(facts: Sequence[Fact]) -> bool:
    return any(fact.rank in (None, 1) for fact in _latest_form(facts)[:1])


def _unknown(part: QuestionPart) -> str:
    words = _words_of(part.language)
    return words["unknown"] if words else NOTHING_STORED


def _words_of(language: str) -> Mapping[str, Any] | None:
    """Return the words of answers in the language of a question; None for English."""
    book = find_phrasebook(language)
    return book.sections.get("answers") if book else None


def _sentence_in(words: Mapping[str, Any], part: QuestionPart, facts: Sequence[Fact]) -> str:
    """Return a sentence in the words of a phrasebook."""
    if not facts:
        unknown: str = words["unknown"]
        return unknown
    one, many = words["names"][facts[0].topic_key]
    several = part.kind in ("list", "slice") and len(facts) > 1
    values = ", ".join(f"{fact.rank}) {fact_value(fact.value)}" for fact in facts)
    ranked = part.kind == "rank" and (part.rank or 1) > 1
    form: str = words["many" if several else "ranked" if ranked else "one"]
    name = many if several else one
    return form.format(name=name, value=fact_value(facts[0].value), values=values, rank=part.rank)


def _sentence(part: QuestionPart, facts: Sequence[Fact], topics: FactTopics) -> str:
    if words := _words_of(part.language):
        return _sentence_in(words, part, facts)
    if not facts:
        assert part.topic_key is not None  # a question without a topic has one part only
        if part.kind == "rank" and part.rank:
            return f"I don't have your {ordinal_word(part.rank)} {topics.singular_name(part.topic_key)} stored yet."
        return f"I don't have your {topics.topic_name(part.topic_key)} stored yet."
    key = facts[0].topic_key
    if part.kind == "rank" and part.rank != 1:
        return _end_sentence(f"Your {ordinal_word(part.rank or 0)} {topics.singular_name(key)} is", facts[0].value)
    if part.kind in ("rank", "first") or facts[0].kind is FactKind.single:
        return _end_sentence(f"Your {topics.singular_name(key)} is", facts[0].value)
    *before, last = facts
    values = "".join(f"{fact.rank}) {fact_value(fact.value)}, " for fact in before)
    verb = "is" if len(facts) == 1 else "are"
    name = topics.singular_name(key) if len(facts) == 1 else topics.topic_name(key)
    return _end_sentence(f"Your {name} {verb} {values}{last.rank})", last.value)


def _end_sentence(words: str, value: str) -> str:
    """Return the words and the value with a full stop, unless the value has one: "Washington, D.C."."""
    sentence = f"{words} {fact_value(value)}"
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def ordinal_word(rank: int) -> str:
    """Return `second` for 2, `11th` for 11."""
    if 1 <= rank <= len(_ORDINALS):
        return _ORDINALS[rank - 1]
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"
