"""The text that is put before a user's message: the conversation's summary and the memories, most relevant first."""

from collections.abc import Iterable

from app.domain.text_rules import one_line


def memory_preface(summary: str | None, memories: Iterable[tuple[str, str]]) -> str:
    """Return the text for `memories`, each a role and a content; empty without a summary and memories.

    A memory takes one line, so that its text cannot look like another part of the message.
    """
    parts = [f"Conversation summary:\n{one_line(summary)}\n\n"] if summary else []
    if lines := [f"- [{role}] {one_line(content)}\n" for role, content in memories]:
        parts.append(f"Long-term memory (most relevant first):\n{''.join(lines)}\n")
    return f"{''.join(parts)}Current message: " if parts else ""
