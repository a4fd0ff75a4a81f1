"""The answers that contained a memory."""

from uuid import UUID

from mnema_client import receipts
from mnema_wire.receipts import MemoryUse
from nicegui import ui

from console.context import PageContext
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.text import format_time, show_line, show_link

PAGE_USES = 20


def show_uses(page: PageContext, memory_id: UUID) -> None:
    """Show the receipts of the answers that contained this memory."""
    with ui.element("section").classes("section").props('aria-label="Where it was used"'):
        heading("Where it was used")
        KeysetList(
            page,
            lambda cursor: page.memory.send(receipts.memory_uses(memory_id, limit=PAGE_USES, cursor=cursor)),
            {
                "Answer": lambda use: show_link(format_time(use.ts), f"/answers/{use.query_id}"),
                "Agent": lambda use: show_line(use.agent or f"({use.via})", 60),
                "Part": lambda use: ui.label(use.part),
                "Version": lambda use: ui.label("" if use.version is None else str(use.version)).classes("number"),
                "Relevance": lambda use: ui.label("" if use.relevance is None else f"{use.relevance:.2f}"),
                "Thread": _show_thread,
            },
            label="Answers that contained this memory, newest first",
            empty=(
                "No answer contained it",
                "A receipt appears about a second after an agent has asked, and is kept for some weeks.",
            ),
        )


def _show_thread(use: MemoryUse) -> object:
    if use.thread_id is None:
        return ui.label("none").classes("soft")
    return show_link(use.thread_id, "/threads", thread_id=use.thread_id)
