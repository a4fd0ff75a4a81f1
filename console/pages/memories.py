"""The page Memories: a list with filters; add, select, edit, delete, export."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast
from uuid import UUID

from mnema_client.requests import ListFields
from mnema_wire.bases import Page
from mnema_wire.memory import Memory, Written
from nicegui import ui

from console.context import PageContext
from console.pages.memories_selection import Selection
from console.pages.memory_add import AddDialog
from console.widgets.export import export_records
from console.widgets.filters import Choice, Filter, FilterForm, Moment
from console.widgets.keyset import Cell, KeysetList
from console.widgets.saved_filters import show_saved_filters
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import show_chips, show_link, show_time, show_user
from console.widgets.undo import UndoBar
from console.widgets.words import show_mark
from console.words import MEMORY_STATES, MEMORY_TYPES, name_choices, name_word

PAGE_ITEMS = 25
EXPORT_ITEMS = 200
ADDED = {
    "created": "The memory is added.",
    "updated": "It says the same as a stored memory, which has this text now.",
    "merged": "It says the same as a stored memory; the two are one now.",
    "unchanged": "A stored memory says this already. Nothing was changed.",
    "skipped": "It was not stored: its text was erased before, or it is not important enough.",
}
"""The words for each result of a write."""
SORTS = {
    "created_at-desc": "Newest first",
    "created_at-asc": "Oldest first",
    "updated_at-desc": "Last changed first",
    "importance-desc": "Most important first",
}
FILTERS: dict[str, Filter] = {
    "q": "Words",
    "user_id": "User",
    "category": "Category",
    "type": Choice("Type", name_choices(MEMORY_TYPES, "All types")),
    "state": Choice("State", {state: word.text for state, word in MEMORY_STATES.items()}, default="active"),
}
MORE_FILTERS: dict[str, Filter] = {
    "thread_id": "Thread",
    "agent_id": "Agent",
    "tag": "Tag",
    "pinned": Choice("Pinned", {"": "All", "true": "Pinned", "false": "Not pinned"}),
    "importance_min": Choice("Importance", {"": "All", **{str(least): f"{least} or more" for least in range(2, 6)}}),
    "where": "Conditions as JSON",
    "sort": Choice("Order", SORTS, default="created_at-desc", narrows=False),
    "as_of": Moment("As Mnema knew it at"),
    "valid_at": Moment("What was so at"),
}


def show(page: PageContext) -> None:
    """Show the page. Its filters are in its address, so that a search can be linked to."""
    if not page.key.allows("query"):
        show_note("Your key may not read memories: it has no scope query.", "warning")
        return
    Browser(page)


class Browser:
    """The list with its filters, its selection, and what can be done with both."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        can_write = page.key.allows("write")
        with ui.element("div").classes("row"):
            if can_write:
                ui.button("Add a memory", icon="add", on_click=self._add)
            ui.button("Export the list", on_click=self._export).props("outline")
            show_link("Ask as an agent", "/ask")
        self._work = ui.element("div").classes("stack")
        self._undo = UndoBar(page, self._refresh)
        with ui.element("section").classes("section").props('aria-label="Find memories"'):
            heading("Find")
            show_saved_filters(page)
            self._form = FilterForm(page, FILTERS, self._refresh, more=MORE_FILTERS)
            self._selection = Selection(page, self._undo, self._refresh) if can_write else None
            self._list = KeysetList(
                page,
                self._fetch,
                self._columns(),
                label="Memories",
                empty=self._form.explain_empty("No memories yet", "Add the first one, or write it: POST /memory."),
            )

    def _columns(self) -> dict[str, Cell[Memory]]:
        boxes: dict[str, Cell[Memory]] = {} if self._selection is None else {"Select": self._selection.add_box}
        return boxes | {
            "Memory": _show_memory,
            "User": lambda memory: show_user(memory.user_id),
            "Category": lambda memory: show_chips([memory.category, name_word(MEMORY_TYPES, memory.type)]),
            "State": lambda memory: show_mark(MEMORY_STATES, memory.state),
            "Importance": lambda memory: ui.label(str(memory.importance)).classes("number"),
            "Changed": lambda memory: show_time(memory.updated_at),
        }

    async def _refresh(self) -> None:
        await self._list.refresh()

    def _filters(self, limit: int) -> ListFields:
        values = self._form.values
        sort, _dash, order = values.pop("sort").partition("-")
        return cast(ListFields, {**values, "sort": sort, "order": order, "limit": limit})

    async def _fetch(self, cursor: str | None) -> Page[Memory]:
        found = await self._page.memory.page(cursor=cursor, **self._filters(PAGE_ITEMS))
        if cursor is None and self._selection is not None:
            self._selection.forget_shown()
        return found

    def _export(self) -> None:
        with self._work:
            export_records(self._page, "memories", self._list_records())

    async def _list_records(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the memories that the filters match, all pages of them."""
        async for memory in self._page.memory.list(**self._filters(EXPORT_ITEMS)):
            yield memory.model_dump(mode="json")

    def _add(self) -> None:
        AddDialog(self._page, self._tell_added, self._form.values.get("user_id", "")).open()

    async def _tell_added(self, written: Written) -> None:
        memory_id = written.id
        undo = None
        if written.action == "created" and memory_id is not None:
            undo = partial(self._take_back, memory_id)
        self._undo.show(ADDED.get(written.action, ADDED["skipped"]), undo)
        await self._refresh()

    async def _take_back(self, memory_id: UUID) -> Memory:
        return await self._page.memory.delete(memory_id)


def _show_memory(memory: Memory) -> None:
    with ui.element("div").classes("row"):
        if memory.pinned:
            show_chips(["pinned"])
        show_link(memory.text or "(no text)", f"/memories/{memory.id}")
    if memory.tags:
        show_chips(memory.tags[:10])
