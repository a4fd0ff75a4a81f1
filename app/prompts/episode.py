"""The prompt for an episode of a conversation, if there is one."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated

from pydantic import ConfigDict, Field

from app.domain.memory import instructions
from app.domain.memory.memory import MemoryType
from app.domain.reflection import grounding
from app.domain.reflection import writing_rules as writing
from app.domain.reflection.episodes import MAX_TAG, MAX_TAGS
from app.domain.reflection.model_usage import CheckedAnswer
from app.domain.reflection.transcript import joined_messages
from app.domain.text_rules import TextLimits
from app.ports import Prompt
from app.prompts import DATA_RULE, SPEAKER_RULE, TOO_MANY, AnswerPart, ShortText, Tags, as_data, bound_list

VERSION = "episode.v4"
MAX_TRANSCRIPT = 8000
MAX_TOKENS = 220
RULES = f"""Task: {VERSION}
You keep a diary of what happens in conversations between a user and an assistant. {DATA_RULE}
{SPEAKER_RULE}
Say in one episode what was discussed, decided or done in the messages: what somebody would want to be reminded of in a
month. Small talk, greetings, thanks, a question that only asks for general knowledge, and what earlier episodes already
tell are no episode: then answer with an empty list.
text: {writing.PROMPT_RULES[MemoryType.episodic]} Every name and number must stand in the messages.
importance: 1 (trivial) to 5 (vital). tags: up to {MAX_TAGS}, one or two words each, lower case."""


class Episode(AnswerPart):
    """An episode of the answer."""

    # The model reads the description; another wording needs a new VERSION.
    model_config = ConfigDict(json_schema_extra={"description": "What happened."})

    text: ShortText
    importance: Annotated[int, Field(ge=1, le=5)]
    tags: Tags


class Answer(AnswerPart):
    """One or none."""

    episodes: Annotated[list[Episode], bound_list(1)]


def episode_prompt(messages: Sequence[Mapping[str, str]], said_on: date, earlier: Sequence[str]) -> Prompt[Answer]:
    """Build the prompt. `messages` are oldest first; `earlier` are the user's last episodes."""
    question = {"date": f"{said_on:%A} {said_on.isoformat()}", "earlier": list(earlier), "messages": list(messages)}
    return Prompt(VERSION, RULES, as_data(question), Answer, MAX_TOKENS)


def read_episode(messages: Sequence[Mapping[str, str]], limits: TextLimits, answer: Answer) -> CheckedAnswer[Episode]:
    """Check the answer. The value is the episode, cut if too long; None if there is none or it breaks a rule.

    Of several episodes the first one counts, and the others are refused as `too_many`.
    """
    if not answer.episodes:
        return CheckedAnswer()
    episode, *others = answer.episodes
    text, rule = grounding.grounded_text(episode.text, MemoryType.episodic, joined_messages(messages), limits)
    checked = None if text is None else episode.model_copy(update={"text": text, "tags": tidy_tags(episode.tags)})
    complaint = f"The episode {grounding.COMPLAINTS[rule]}." if rule else ""
    refused = [TOO_MANY] * len(others)
    return CheckedAnswer(checked, rule, complaint, len(answer.episodes), int(rule is None), refused)


def tidy_tags(tags: Sequence[str]) -> list[str]:
    """Return at most MAX_TAGS distinct tags in lower case.

    Unprintable and too long ones are dropped, and the mark of standing instructions: only the user gives orders.
    """
    clean = (" ".join(tag.lower().split()) for tag in tags)
    kept = (tag for tag in clean if 0 < len(tag) <= MAX_TAG and tag.isprintable() and tag != instructions.TAG)
    return list(dict.fromkeys(kept))[:MAX_TAGS]
