"""The prompt for a stable workflow that a user describes in one message, if there is one."""

from typing import Annotated

from pydantic import ConfigDict, Field

from app.domain.errors import InvalidInput
from app.domain.memory.procedures import check_steps
from app.domain.reflection import grounding
from app.domain.reflection.model_usage import CheckedAnswer
from app.domain.reflection.workflows import MAX_STEPS, MIN_STEPS, Workflow
from app.domain.text_rules import cut_at_word, one_line
from app.ports import Prompt
from app.prompts import DATA_RULE, TOO_MANY, AnswerPart, Tags, as_data, bound_list, bound_text
from app.prompts.episode import tidy_tags

VERSION = "workflow.v3"
MAX_MESSAGE = 8000
MAX_TITLE = 120
MAX_STEP = 120
MAX_TOKENS = 1000
RULES = f"""Task: {VERSION}
You look for a stable workflow in one message of a user: how something is always done, told so that somebody else can do
it. {DATA_RULE}
What happened once, a plan for one day, a list of things, a question, and steps that are only quoted or that the user
asks about are no workflow: then answer with an empty list.
title: what the steps achieve, in one line, at most {MAX_TITLE} characters, such as "How to release the shop".
steps: {MIN_STEPS} to {MAX_STEPS}, in order, without numbers, in the message's language. Each begins with what to do
("Run the tests."), never with a pronoun or an article. Every name and number must stand in the message; add nothing.
tags: up to 5, one word each, lower case. importance: 1 (trivial) to 5 (vital).
confidence: 0 to 1, how sure you are that the user means a standing way of doing it.
Answer with one workflow at most."""
COMPLAINTS = {
    **grounding.COMPLAINTS,
    "no_steps": f"needs {MIN_STEPS} to {MAX_STEPS} steps, each of which begins with what to do",
    "no_title": "needs a title",
}


class Procedure(AnswerPart):
    """A workflow of the answer."""

    # The model reads the description; another wording needs a new VERSION.
    model_config = ConfigDict(json_schema_extra={"description": "How something is always done."})

    title: Annotated[str, bound_text(MAX_TITLE)]
    steps: Annotated[list[Annotated[str, bound_text(MAX_STEP)]], bound_list(MAX_STEPS)]
    tags: Tags
    importance: Annotated[int, Field(ge=1, le=5)]
    confidence: Annotated[float, Field(ge=0, le=1)]


class Answer(AnswerPart):
    """One or none."""

    procedures: Annotated[list[Procedure], bound_list(1)]


def workflow_prompt(message: str) -> Prompt[Answer]:
    """Build the prompt. Of a message above MAX_MESSAGE the model reads the beginning."""
    return Prompt(VERSION, RULES, as_data({"message": cut_at_word(message, MAX_MESSAGE)}), Answer, MAX_TOKENS)


def read_workflow(message: str, answer: Answer) -> CheckedAnswer[Workflow]:
    """Check the answer. The value is the workflow; None if there is none or it breaks a rule.

    Of several workflows the first one counts, and the others are refused as `too_many`.
    """
    if not answer.procedures:
        return CheckedAnswer()
    found, *others = answer.procedures
    workflow, rule = _check(message, found)
    refused = [TOO_MANY] * len(others)
    complaint = f"The workflow {COMPLAINTS[rule]}." if rule else ""
    return CheckedAnswer(workflow, rule, complaint, len(answer.procedures), int(rule is None), refused)


def _check(message: str, found: Procedure) -> tuple[Workflow | None, str | None]:
    title = cut_at_word(one_line(found.title).strip(), MAX_TITLE)
    steps = [one_line(step).strip() for step in found.steps]
    if not title:
        return None, "no_title"
    if not MIN_STEPS <= len(steps) <= MAX_STEPS or not all(steps):
        return None, "no_steps"
    try:
        numbered = check_steps("\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)))
    except InvalidInput:
        return None, "no_steps"
    told = " ".join(text[:1].lower() + text[1:] for text in (title, *steps))  # a capital at the start is no name
    if (rule := grounding.find_foreign(told, message)) is not None:
        return None, rule
    return Workflow(title, numbered, tuple(tidy_tags(found.tags)), found.importance, found.confidence), None
