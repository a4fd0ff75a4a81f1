"""The prompt for up to five durable facts from one message of a user."""

from collections.abc import Mapping
from datetime import date
from typing import Annotated

from pydantic import Field

from app.domain.memory.memory import MemoryType
from app.domain.reflection import writing_rules as writing
from app.domain.reflection.fact_extraction import COMPLAINTS, MAX_CANDIDATES, Candidate, broken_rule
from app.domain.reflection.grounding import find_quote
from app.domain.reflection.model_usage import CheckedAnswer
from app.domain.text_rules import TextLimits, cut_at_word
from app.ports import Prompt
from app.prompts import DATA_RULE, TOO_MANY, AnswerPart, Label, Quote, ShortText, as_data, bound_list, bound_quote

VERSION = "multi_fact.v5"
MAX_MESSAGE = 8000
MAX_TOKENS = 1000
RULES = f"""Task: {VERSION}
You pick out durable facts that a user tells of their own life and work, from one message of theirs. {DATA_RULE}
A durable fact is likely to be true still in some weeks: who the user is, people, animals and things in the user's
life, preferences, goals, duties, health, limits, decisions and dates of projects, standing rules for whoever works for
the user, and how texts for the user read. It is no question, no request, no one-off action, nothing that is only
quoted or supposed, nothing an assistant said, and no guess of yours.
text: {writing.PROMPT_RULES[MemoryType.semantic]} Every name and number must stand in the message.
Write the text in the language of the message.
category: one of the question's categories. importance: 1 (trivial) to 5 (vital).
quote: the words of the message that say it, copied exactly, and no more than needed.
Answer with 1 to {MAX_CANDIDATES} facts, the most important first; with an empty list if there are none."""


class Fact(AnswerPart):
    """One of them."""

    text: ShortText
    category: Label
    importance: Annotated[int, Field(ge=1, le=5)]
    quote: Quote


class Answer(AnswerPart):
    """All of them."""

    facts: Annotated[list[Fact], bound_list(MAX_CANDIDATES)]


def fact_extraction_prompt(message: str, said_on: date, categories: Mapping[str, str]) -> Prompt[Answer]:
    """Build the prompt. `categories` are descriptions by name. The caller splits messages above MAX_MESSAGE."""
    question = {
        "date": f"{said_on:%A} {said_on.isoformat()}",
        "categories": dict(categories),
        "message": cut_at_word(message, MAX_MESSAGE),
    }
    return Prompt(VERSION, RULES, as_data(question), Answer, MAX_TOKENS, {"quote": bound_quote(message)})


def read_fact_extraction(
    message: str, categories: Mapping[str, str], limits: TextLimits, answer: Answer
) -> CheckedAnswer[list[Candidate]]:
    """Check the answer. The value has the candidates that keep every rule; those that are only too long are cut.

    A candidate's quote is the part of the given one that stands in the message.

    Of several with the same text the first one counts. Of more than MAX_CANDIDATES facts the first ones count, and the
    others are refused as `too_many`.
    """
    told = dict[str, Fact]()
    for one in answer.facts:
        told.setdefault(one.text, one)  # a small model repeats itself
    candidates = [Candidate(fact.text, fact.category, fact.importance, fact.quote) for fact in told.values()]
    facts = candidates[:MAX_CANDIDATES]
    too_many = [TOO_MANY] * len(candidates[MAX_CANDIDATES:])
    valid = []
    complaints = []
    first = None
    refused = []
    for number, fact in enumerate(facts, 1):
        rule = broken_rule(fact, message, categories, limits)
        if rule is None or rule in writing.CUTTABLE_RULES:
            text = writing.shorten_text(fact.text, MemoryType.semantic, limits) or fact.text
            quote = find_quote(fact.quote, message)
            valid.append(Candidate(text, fact.category, fact.importance, quote))
        else:
            refused.append(rule)
        if rule is not None:
            first = first or rule
            complaints.append(f"Fact {number} {COMPLAINTS[rule]}.")
    complaint = " ".join([*complaints, "Leave out what cannot be mended."])
    kept = len(facts) - len(complaints)
    return CheckedAnswer(valid, first, complaint if first else "", len(answer.facts), kept, [*refused, *too_many])
