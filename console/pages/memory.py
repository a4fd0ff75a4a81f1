"""The page of one memory: its fields, what may be done with it, its timeline and where it was used."""

import json
from collections.abc import Callable
from uuid import UUID

from mnema_client import AsyncMnema, receipts
from mnema_wire.memory import Memory
from mnema_wire.receipts import MemoryUse
from nicegui import ui

from console.context import PageContext
from console.pages.memory_edit import EditDialog
from console.pages.memory_timeline import Timeline
from console.texts import shorten_text
from console.times import format_time
from console.widgets.acting import change_and_reload
from console.widgets.confirm import ask_confirmation
from console.widgets.keyset import KeysetList
from console.widgets.pairs import show_pairs
from console.widgets.section import Section, heading
from console.widgets.states import show_empty_state
from console.widgets.text import show_chips, show_id, show_line, show_link, show_text, show_user
from console.widgets.words import show_mark
from console.words import MEMORY_STATES, MEMORY_TYPES, ORIGINS, name_word

PAGE_USES = 20


def show(page: PageContext) -> None:
    """Show the page."""
    try:
        memory_id = UUID(page.params.get("memory_id", ""))
    except ValueError:
        show_empty_state("This is not a memory's id", "Open a memory from the page Memories.")
        return
    MemoryPage(page, memory_id)


class MemoryPage:
    """The parts of the page; an action loads the ones that it changed again."""

    def __init__(self, page: PageContext, memory_id: UUID) -> None:
        self._page = page
        self._id = memory_id
        self._card = Section(page, self._fetch, self._show_memory)
        self._timeline = Timeline(page, memory_id, self.refresh)
        _show_uses(page, memory_id)

    async def refresh(self) -> None:
        """Load the memory and its timeline again."""
        await self._card.refresh()
        await self._timeline.refresh()

    async def _fetch(self) -> Memory:
        memory = await self._page.memory.get(self._id)
        self._timeline.current = memory
        return memory

    def _show_memory(self, memory: Memory) -> None:
        show_text(memory.text or "(no text)").classes("memory-text")
        if memory.steps_text:
            heading("Steps", 2)
            show_text(memory.steps_text)
        with ui.element("div").classes("row"):
            show_mark(MEMORY_STATES, memory.state)
            if memory.pinned:
                ui.label("pinned").classes("chip good")
            ui.label(f"version {memory.version}").classes("soft")
        if self._page.key.allows("write"):
            self._show_actions(memory)
        _show_fields(memory)

    def _show_actions(self, memory: Memory) -> None:
        api = self._page
        with ui.element("div").classes("row"):
            if memory.state == "active":
                ui.button("Edit", on_click=lambda: EditDialog(api, memory, self.refresh).open())
                label = "Unpin" if memory.pinned else "Pin"
                ui.button(label, on_click=lambda: self._pin(memory)).props("outline")
                ui.button("No longer true", on_click=lambda: self._supersede(memory)).props("outline")
                ui.button("Was wrong", on_click=lambda: self._retract(memory)).props("outline")
                ui.button("Move to the bin", on_click=lambda: self._delete(memory)).props("outline color=negative")
            else:
                ui.button("Restore", on_click=self._restore)

    async def _pin(self, memory: Memory) -> None:
        done = "Unpinned" if memory.pinned else "Pinned"
        await change_and_reload(self._page, self._page.memory.pin(memory.id, not memory.pinned), done, self.refresh)

    async def _supersede(self, memory: Memory) -> None:
        call = self._page.memory.supersede(memory.id, version=memory.version)
        await change_and_reload(self._page, call, "Marked as no longer true; Restore undoes it", self.refresh)

    async def _retract(self, memory: Memory) -> None:
        call = self._page.memory.retract(memory.id, version=memory.version)
        await change_and_reload(self._page, call, "Marked as wrong; Restore undoes it", self.refresh)

    async def _restore(self) -> None:
        await change_and_reload(self._page, self._page.memory.restore(self._id), "Restored", self.refresh)

    async def _delete(self, memory: Memory) -> None:
        until = "No answer contains it then. It can be restored until it is deleted for good."
        consequence = f"“{shorten_text(memory.text)}”\n{until}"
        if not await ask_confirmation("Move this memory to the bin?", consequence, action="Move to the bin"):
            return
        api: AsyncMnema = self._page.memory
        call = api.delete(memory.id, version=memory.version)
        await change_and_reload(self._page, call, "Moved to the bin", self.refresh)


def _show_fields(memory: Memory) -> None:
    thread, newer = memory.thread_id, memory.superseded_by
    fields: dict[str, str | Callable[[], object] | None] = {
        "user": lambda: show_user(memory.user_id),
        "category": lambda: show_chips([memory.category, name_word(MEMORY_TYPES, memory.type)]),
        "tags": (lambda: show_chips(memory.tags)) if memory.tags else None,
        "thread": (lambda: show_link(thread, "/threads", thread_id=thread)) if thread else None,
        "importance": str(memory.importance),
        "agent": memory.agent_id,
        "run": memory.run_id,
        "actor": memory.actor_id,
        "role": memory.role,
        "place in the thread": None if memory.seq is None else str(memory.seq),
        "created": format_time(memory.created_at),
        "changed": format_time(memory.updated_at),
        "language": memory.language,
        "origin": memory.origin and name_word(ORIGINS, memory.origin),
        "expires at": format_time(memory.expires_at) if memory.expires_at else None,
        "true from": format_time(memory.valid_from) if memory.valid_from else None,
        "true until": format_time(memory.valid_to) if memory.valid_to else None,
        "last retrieved": f"{format_time(memory.last_accessed)} ({memory.hits} in all)",
        "deleted for good at": format_time(memory.purge_at) if memory.purge_at else None,
        "superseded by": (lambda: show_link(str(newer), f"/memories/{newer}")) if newer else None,
        "id": lambda: show_id(memory.id),
    }
    show_pairs({name: value for name, value in fields.items() if value is not None})
    for name, document in (("Source", memory.source), ("Metadata", memory.metadata)):
        if document:
            heading(name, 3)
            show_text(json.dumps(document, ensure_ascii=False, indent=2), "code block")


def _show_uses(page: PageContext, memory_id: UUID) -> None:
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
