"""The scripted model's answers and verdicts in an evaluation: it compares words."""

import re
from collections.abc import Iterator
from typing import Any

DENIAL = "Nobody said that."
"""The answer to a question about a height: a denial in words, which a judge must recognise."""
_COMMON = {"what", "which", "when", "where", "does", "how", "the", "and", "is", "are", "on", "of", "to", "in", "my"}


def content_words(text: str) -> set[str]:
    """Return the words in lower case, without the most common ones."""
    return set(re.findall(r"\w+", text.lower())) - _COMMON


def wrong_memories(question: dict[str, Any]) -> Iterator[str]:
    """Check for a question, its time and the text of the memories."""
    if question.keys() != {"now", "question", "memories"} or not question["question"] or not question["memories"]:
        yield f"{sorted(question)}"
    elif not re.match(r"[A-Z][a-z]+day \d{4}-\d\d-\d\dT\d\d:\d\d", question["now"]):
        yield "nobody can tell when it is asked"


def answer_question(question: dict[str, Any]) -> Any:
    """Answer with the memory that shares the most words with the question; null if none shares two."""
    asked = content_words(question["question"])
    if "tall" in asked:
        return {"answer": DENIAL}
    best = max(question["memories"].splitlines(), key=lambda line: len(asked & content_words(line)))
    return {"answer": best if len(asked & content_words(best)) > 1 else None}


def wrong_comparison(question: dict[str, Any]) -> Iterator[str]:
    """Check for a question, an answer and the expected one."""
    if question.keys() != {"question", "answerable", "expected", "answer"} or not question["answer"]:
        yield f"{sorted(question)}"
    elif question["answerable"] and not question["expected"]:
        yield "there is no expected answer"


def judge_answer(question: dict[str, Any]) -> Any:
    """Return "right" if the answer has all the words of the expected one."""
    if question["answer"] == DENIAL:
        return {"verdict": "abstained"}
    is_right = question["answerable"] and content_words(question["expected"]) <= content_words(question["answer"])
    return {"verdict": "right" if is_right else "wrong"}
