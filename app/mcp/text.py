"""Text of the tools' answers, for models that see only text."""

from mnema_wire.facts import FactPage, FactReply
from mnema_wire.marks import TagNames
from mnema_wire.memory import Corrected, Forgotten, HistoryPage, Written

from app.domain.rendering.lines import (
    bullet,
    cursor_line,
    fact_line,
    history_line,
    identified_line,
    plain_line,
    without_named_ids,
)
from app.domain.rendering.model_text import ModelText, join_lines
from app.usecases.recall.answer import Answer

NO_MATCH = plain_line("No stored memory matches.")
TOO_LONG = plain_line("Memories match, but none fits the token budget.")
NO_FACTS = plain_line("No stored fact matches.")
NO_QUESTION = plain_line("This is no question about facts. Search the memories for it.")


def answer_text(answer: Answer) -> ModelText:
    """Return the delta header, the answer from facts, the items and the related items, one line each.

    The budget has counted these lines, so the text fits the budget too. If there are none, the text says why. Ids of
    memories end their items: no other text of a user names one.
    """
    lines = [without_named_ids(answer.told_header)]
    if answer.fact_answer is not None and answer.fact_answer.answered:
        lines.append(without_named_ids(answer.fact_line))
    lines += [item.told for item in (*answer.items, *answer.related)]
    return join_lines(lines) or (TOO_LONG if answer.left_out else NO_MATCH)


def written_text(written: Written) -> ModelText:
    """Return the result of a write as one line."""
    if written.id is None:
        return plain_line(f"{written.action}: {written.reason}")
    joined = f", joined with {written.matched_id}" if written.matched_id not in (None, written.id) else ""
    closed = f", {written.state} at once: a later statement is stored" if written.state else ""
    return plain_line(f"{written.action} {written.id}{joined}{closed}")


def forgotten_text(body: Forgotten, names: TagNames) -> ModelText:
    """Return what would go or what went: a first line that says which, then one line for each memory."""
    memories = body.forgotten or body.matches
    if not memories:
        return NO_MATCH
    first = (
        "Forgotten:" if body.forgotten else "Nothing is forgotten yet. To forget, call again with the ids in confirm:"
    )
    lines = [
        identified_line(bullet(memory.category, memory.text, names), memory.id, memory.updated_at, memory.valid_to)
        for memory in memories
    ]
    return join_lines([plain_line(first), *lines])


def corrected_text(corrected: Corrected) -> ModelText:
    """Return the result of a correction as one line."""
    return plain_line(f"stored {corrected.id}; {corrected.corrected_id} is {corrected.state} now")


def history_text(page: HistoryPage, names: TagNames) -> ModelText:
    """Return one line for each entry, newest first, and a last line with the cursor if there are more."""
    lines = []
    for entry in page.items:
        text = (entry.meta.get("after") or entry.meta.get("before") or {}).get("text") or ""
        lines.append(history_line(entry.ts, entry.event, entry.actor, text, names))
    if page.next_cursor:
        lines.append(cursor_line(page.next_cursor))
    return join_lines(lines)


def facts_text(page: FactPage, names: TagNames) -> ModelText:
    """Return one line for each fact, and a last line with the cursor if there are more."""
    lines = [fact_line(fact.topic_key, fact.rank, fact.value, fact.thread_id, names) for fact in page.items]
    if page.next_cursor:
        lines.append(cursor_line(page.next_cursor))
    return join_lines(lines) or NO_FACTS


def fact_answer_text(answer: FactReply, names: TagNames) -> ModelText:
    """Return the answer to a question. If the question is not about facts, say where to search instead."""
    return plain_line(answer.text, names) if answer.text else NO_QUESTION
