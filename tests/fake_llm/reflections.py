"""The scripted model's knowledge of the prompts that read conversations."""

import re
from collections.abc import Iterator
from typing import Any

from app.domain.reflection.insights import MAX_INSIGHTS
from app.prompts import episode, summary

Question = dict[str, Any]
MAX_ACTIVITY, MAX_FACTS, MAX_SNIPPET = 5, 3, 1000


def wrong_talk(told: Any, most: int) -> Iterator[str]:
    """Check a transcript: users and assistants, shortened texts, and no text of Mnema's own."""
    if not isinstance(told, list) or any(one.keys() != {"who", "text"} for one in told):
        yield "messages are not who said what"
        return
    texts = [one["text"] for one in told]
    if not all(texts) or sum(map(len, texts)) > most:
        yield "messages are empty or too long"
    if any("Memory updates since rev" in text for text in texts):
        yield "a message has what Mnema put there"


def wrong_episode(question: Question) -> Iterator[str]:
    """Check the material of an episode: messages, their day and the earlier episodes."""
    if question.keys() != {"date", "earlier", "messages"} or not question.get("messages"):
        yield f"{sorted(question)}"
    if len(question.get("earlier", [])) > 3 or any(text.startswith("On ") for text in question.get("earlier", [])):
        yield "too many earlier episodes, or with their dates"
    if not re.fullmatch(r"[A-Z][a-z]+day \d{4}-\d\d-\d\d", str(question.get("date"))):
        yield "nobody can tell when it was said"
    yield from wrong_talk(question.get("messages"), episode.MAX_TRANSCRIPT)


def wrong_summary(question: Question) -> Iterator[str]:
    """Check the material of a summary: the old one, the turns since, and the length limit of the new one."""
    if question.keys() != {"characters", "summary", "messages"} or not question.get("messages"):
        yield f"{sorted(question)}"
    if not 0 <= len(question.get("summary", "")) <= 8000 or not 100 <= question.get("characters", 0) <= 8000:
        yield "the old summary is too long, or there is no limit for the new one"
    yield from wrong_talk(question.get("messages"), summary.MAX_TRANSCRIPT)


def wrong_material(question: Question) -> Iterator[str]:
    """Check the material of insights: at most 5 episodes, 3 facts and 1,000 characters of conversation."""
    if question.keys() != {"activity", "facts", "talk"}:
        yield f"{sorted(question)}"
    if not 1 <= len(question.get("activity", [])) <= MAX_ACTIVITY or len(question.get("facts", [])) > MAX_FACTS:
        yield "too much or nothing to read"
    yield from wrong_talk(question.get("talk"), MAX_SNIPPET)


def capture(question: Question) -> Any:
    """Return the user's last message as an episode; none if only an assistant speaks."""
    if (said := _last(question)) is None:
        return {"episodes": []}
    return {"episodes": [{"text": f"The user talked, and said {said}.", "importance": 2, "tags": ["Talk"]}]}


def summarise(question: Question) -> Any:
    """Return the old summary and the user's last message."""
    said = _last(question)
    text = f"{question['summary']} The user said {said}.".strip() if said else question["summary"]
    return {"summary": text[-question["characters"] :] if len(text) > question["characters"] else text}


def guess(question: Question) -> Any:
    """Return one insight about the longest word of the last episode."""
    word = max(re.findall(r"\w+", question["activity"][-1]), key=len)
    one = {
        "summary": f'The user perhaps thinks a lot of "{word}".',
        "tags": ["Care"],
        "importance": 2,
        "confidence": 0.6,
    }
    return {"insights": [one][:MAX_INSIGHTS]}


def _last(question: Question) -> str | None:
    said = [one["text"] for one in question["messages"] if one["who"] != "assistant"]
    if not said:
        return None
    return '"' + re.sub(r'["\s]+', " ", said[-1])[:100].strip(" .!?") + '"'
