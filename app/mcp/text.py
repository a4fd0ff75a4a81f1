"""Text of the tools' answers, for models that see only text."""

from app.api.schemas.facts.facts import FactAnsweredOut, FactOut, FactPageOut
from app.api.schemas.memory.memories import HistoryPageOut, WrittenOut
from app.domain.text_rules import one_line
from app.usecases.recall.answer import Answer

NOTHING = "No stored memory matches."
TOO_LONG = "Memories match, but none fits the token budget."
NO_FACTS = "No stored fact matches."
NO_QUESTION = "This is no question about facts. Search the memories for it."


def answer_text(answer: Answer) -> str:
    """Return the delta header, the answer from facts, the items and the related items, one line each.

    The budget has counted exactly these lines, so the text fits the budget too. If there are none, the text says why.
    """
    bullets = [item.text for item in (*answer.items, *answer.related)]
    if answer.fact_answer is not None and answer.fact_answer.answered:
        bullets = [answer.fact_answer.text, *bullets]
    return "\n".join([answer.header, *bullets] if answer.header else bullets) or (
        TOO_LONG if answer.left_out else NOTHING
    )


def written_text(written: WrittenOut) -> str:
    """Return the result of a write as one line."""
    if written.id is None:
        return f"{written.action}: {written.reason}"
    joined = f", joined with {written.matched_id}" if written.matched_id not in (None, written.id) else ""
    return f"{written.action} {written.id}{joined}"


def history_text(page: HistoryPageOut) -> str:
    """Return one line for each entry, newest first, and a last line with the cursor if there are more."""
    lines = []
    for entry in page.items:
        text = (entry.meta.get("after") or entry.meta.get("before") or {}).get("text") or ""
        line = f"{entry.ts:%Y-%m-%d %H:%M:%S} {entry.event} by {entry.actor or 'system'}"
        lines.append(f"{line}: {one_line(text)}" if text else line)
    if page.next_cursor:
        lines.append(f"more: cursor {page.next_cursor}")
    return "\n".join(lines)


def facts_text(page: FactPageOut) -> str:
    """Return one line for each fact, and a last line with the cursor if there are more."""
    lines = [_fact_line(fact) for fact in page.items]
    if page.next_cursor:
        lines.append(f"more: cursor {page.next_cursor}")
    return "\n".join(lines) or NO_FACTS


def _fact_line(fact: FactOut) -> str:
    rank = "" if fact.rank is None else f" #{fact.rank}"
    thread = "" if fact.thread_id is None else f" (thread {fact.thread_id})"
    return f"{fact.topic_key}{rank}: {one_line(fact.value)}{thread}"


def fact_answer_text(answer: FactAnsweredOut) -> str:
    """Return the answer to a question, or the way to one if it is no question about facts."""
    return answer.text or NO_QUESTION
