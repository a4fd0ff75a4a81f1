"""The prompt that updates the summary of a conversation."""

from collections.abc import Mapping, Sequence

from app.domain.memory.memory import MemoryType
from app.domain.reflection import grounding
from app.domain.reflection import writing_rules as writing
from app.domain.reflection.model_usage import CheckedAnswer
from app.domain.reflection.transcript import joined_messages
from app.domain.text_rules import TextLimits, normalise_text
from app.ports import Prompt
from app.prompts import CHARACTERS_A_TOKEN, DATA_RULE, SPEAKER_RULE, AnswerPart, as_data

VERSION = "summary.v3"
MAX_TRANSCRIPT = 16_000
RULES = f"""Task: {VERSION}
You keep the running summary of a conversation between a user and an assistant. {DATA_RULE}
{SPEAKER_RULE}
Write the summary anew from the old one and the messages that came since: what it is about, what was decided, what is
still open, and what the user told of themselves. Keep what still holds of the old summary; what the messages correct,
say as it is now. {writing.PROMPT_RULES[MemoryType.summary]} At most as many characters as the question allows.
If there is nothing worth a summary, answer with an empty text."""


class Answer(AnswerPart):
    """The new one."""

    summary: str


def summary_prompt(old: str, messages: Sequence[Mapping[str, str]], characters: int) -> Prompt[Answer]:
    """Build the prompt. `old` is the summary so far, perhaps empty; `messages` came since, oldest first."""
    question = {"characters": characters, "summary": old, "messages": list(messages)}
    tokens = characters // CHARACTERS_A_TOKEN + 100
    return Prompt(VERSION, RULES, as_data(question), Answer, tokens, {"summary": characters})


def read_summary(
    old: str, messages: Sequence[Mapping[str, str]], characters: int, answer: Answer
) -> CheckedAnswer[str]:
    """Check the answer. The value is the summary, cut if too long; None if there is none or it breaks a rule."""
    if not normalise_text(answer.summary):
        return CheckedAnswer()
    limits = TextLimits(summary=characters)
    source = f"{old}\n{joined_messages(messages)}"
    text, rule = grounding.grounded_text(answer.summary, MemoryType.summary, source, limits)
    return CheckedAnswer(text, rule, f"The summary {grounding.COMPLAINTS[rule]}." if rule else "", 1, int(rule is None))
