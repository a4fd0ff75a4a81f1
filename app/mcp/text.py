"""What a tool's answer reads like, for models that see text only."""

from app.api.schemas.memory.memories import HistoryPageOut, WrittenOut
from app.domain.text_rules import one_line
from app.usecases.recall.answer import Answer

NOTHING = "Nothing stored matches."
TOO_LONG = "What matches does not fit the budget."


def answer_text(answer: Answer) -> str:
    """The delta header, then a bullet a line, then the related ones.

    These are the lines the budget has counted, and nothing is put around them: so the text fits the budget too. Where
    there is none, it says why.
    """
    bullets = [item.text for item in (*answer.items, *answer.related)]
    return "\n".join([answer.header, *bullets] if answer.header else bullets) or (
        TOO_LONG if answer.left_out else NOTHING
    )


def written_text(written: WrittenOut) -> str:
    """What a write did, on one line."""
    if written.id is None:
        return f"{written.action}: {written.reason}"
    joined = f", joined with {written.matched_id}" if written.matched_id else ""
    return f"{written.action} {written.id}{joined}"


def history_text(page: HistoryPageOut) -> str:
    """One entry a line, newest first."""
    lines = []
    for entry in page.items:
        text = (entry.meta.get("after") or entry.meta.get("before") or {}).get("text") or ""
        line = f"{entry.ts:%Y-%m-%d %H:%M:%S} {entry.event} by {entry.actor or 'system'}"
        lines.append(f"{line}: {one_line(text)}" if text else line)
    if page.next_cursor:
        lines.append(f"more: cursor {page.next_cursor}")
    return "\n".join(lines)
