"""The prompt for insights: guesses about the reasons behind a user's words and actions."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from app.domain.memory.memory import MemoryType
from app.domain.reflection import grounding
from app.domain.reflection import writing_rules as writing
from app.domain.reflection.insights import MAX_INSIGHTS, Insight
from app.domain.reflection.model_usage import CheckedAnswer
from app.domain.text_rules import TextLimits
from app.ports import Prompt
from app.prompts import DATA_RULE, SPEAKER_RULE, TOO_MANY, AnswerPart, ShortText, Tags, as_data, bound_list
from app.prompts.episode import tidy_tags

VERSION = "insights.v5"
MAX_TOKENS = 600
RULES = f"""Task: {VERSION}
You look for what may lie behind what a user says and does: emotions, trust, how they like to be dealt with, preferences
that change. {DATA_RULE}
{SPEAKER_RULE}
Draw 1 to {MAX_INSIGHTS} insights from the activity, the facts and the talk; answer with an empty list if nothing goes
beyond what is said.
summary: {writing.PROMPT_RULES[MemoryType.insight]} Every name and number must stand in the question.
tags: up to 5, one word each. importance: 1 or 2. confidence: 0 to 1, how sure you are."""


class One(AnswerPart):
    """One insight, with the confidence in it from 0 to 1."""

    summary: ShortText
    tags: Tags
    importance: Annotated[int, Field(ge=1, le=5)]
    confidence: Annotated[float, Field(ge=0, le=1)]


class Answer(AnswerPart):
    """All of them."""

    insights: Annotated[list[One], bound_list(MAX_INSIGHTS)]


def insights_prompt(question: Mapping[str, Any]) -> Prompt[Answer]:
    """Build the prompt. `question` has the texts `activity` and `facts` and the messages `talk`, oldest first."""
    return Prompt(VERSION, RULES, as_data(question), Answer, MAX_TOKENS)


def read_insights(question: Mapping[str, Any], limits: TextLimits, answer: Answer) -> CheckedAnswer[list[Insight]]:
    """Check the answer. The value has the insights that keep every rule; those that are only too long are cut.

    Of more than MAX_INSIGHTS the first ones count, and the others are refused as `too_many`.
    """
    insights = answer.insights[:MAX_INSIGHTS]
    too_many = [TOO_MANY] * (len(answer.insights) - len(insights))
    source = as_data(question).text
    valid = []
    complaints = []
    first = None
    for number, insight in enumerate(insights, 1):
        text, rule = grounding.grounded_text(insight.summary, MemoryType.insight, source, limits)
        if text is not None:
            valid.append(Insight(text, tuple(tidy_tags(insight.tags)), insight.confidence))
        if rule is not None:
            first = first or rule
            complaints.append(f"Insight {number} {grounding.COMPLAINTS[rule]}.")
    complaint = " ".join([*complaints, "Leave out what cannot be mended."])
    kept = len(insights) - len(complaints)
    return CheckedAnswer(valid, first, complaint if first else "", len(answer.insights), kept, too_many)
