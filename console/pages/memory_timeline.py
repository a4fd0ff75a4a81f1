"""The timeline of a memory: every change with its words, and the way back to an earlier text."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mnema_client import calls
from mnema_wire.bases import Page
from mnema_wire.memory import HistoryEntry, Memory
from nicegui import ui

from console.context import PageContext
from console.differences import Piece, compare_words
from console.texts import reveal_text, shorten_text
from console.widgets.acting import change_and_reload
from console.widgets.confirm import ask_confirmation
from console.widgets.differences import show_pieces
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.text import show_line, show_time
from console.widgets.words import show_word
from console.words import CHANGES, MEMORY_STATES, MEMORY_TYPES, Words, name_word

PAGE_ENTRIES = 20
NAMED: dict[str, Words] = {"state": MEMORY_STATES, "type": MEMORY_TYPES}
"""Fields whose values have words."""
SHOWN_FIELDS = ("category", "importance", "pinned", "tags", "state", "thread_id", "type")


@dataclass(frozen=True)
class Change:
    """An entry of the history with the compared words of its text."""

    entry: HistoryEntry
    before: str
    after: str
    pieces: Sequence[Piece]
    fields: Sequence[str]


class Timeline:
    """The timeline. `current`: the memory as it was last loaded, for the version check of a way back."""

    def __init__(self, page: PageContext, memory_id: UUID, on_changed: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._id = memory_id
        self._on_changed = on_changed
        self.current: Memory | None = None
        with ui.element("section").classes("section").props("aria-label=Timeline"):
            heading("Timeline")
            self._list = KeysetList(
                page,
                self._fetch,
                build_entry=self._show_change,
                label="Changes, newest first",
                empty=("No history", "This memory has no entries in the audit trail that your key may see."),
            )

    async def refresh(self) -> None:
        """Load the newest changes again."""
        await self._list.refresh()

    async def _fetch(self, cursor: str | None) -> Page[Change]:
        found = await self._page.memory.send(calls.history(self._id, limit=PAGE_ENTRIES, cursor=cursor))
        changes = await asyncio.to_thread(lambda: [_read_change(entry) for entry in found.items])
        return Page(items=changes, next_cursor=found.next_cursor)

    def _show_change(self, change: Change) -> None:
        entry = change.entry
        with ui.element("div").classes("row"):
            show_word(CHANGES, entry.event).classes("chip")
            show_time(entry.ts)
            if entry.actor:
                show_line(f"by {entry.actor}", 80).classes("soft")
        if change.before != change.after:
            show_pieces(change.pieces)
        for line in change.fields:
            ui.label(line).classes("text soft")
        if change.before and change.before != change.after and self._page.key.allows("write"):
            ui.button("Put the earlier text back", on_click=lambda: self._put_back(change)).props("flat dense")

    async def _put_back(self, change: Change) -> None:
        if self.current is None:
            return
        shown = shorten_text(change.before, 400)
        if not await ask_confirmation("Put this text back?", shown, action="Put back"):
            return
        call = self._page.memory.edit(self._id, version=self.current.version, text=change.before)
        await change_and_reload(self._page, call, "The earlier text is back", self._on_changed)


def _read_change(entry: HistoryEntry) -> Change:
    before, after = entry.meta.get("before") or {}, entry.meta.get("after") or {}
    old, new = str(before.get("text") or ""), str(after.get("text") or "")
    if not after:  # a purge keeps no text
        new = ""
    return Change(entry, old, new, compare_words(old, new) if old != new else [], _compare_fields(before, after))


def _compare_fields(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    if not before or not after:
        return []
    return [
        f"{name}: {_write_value(name, before.get(name))} → {_write_value(name, after.get(name))}"
        for name in SHOWN_FIELDS
        if name in after and before.get(name) != after.get(name)
    ]


def _write_value(name: str, value: object) -> str:
    if name in NAMED:
        return name_word(NAMED[name], str(value))
    if isinstance(value, list):
        return ", ".join(reveal_text(str(part), 60) for part in value[:20]) or "none"
    return "none" if value is None else reveal_text(str(value), 200)
