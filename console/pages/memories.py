"""The page Memories: a list with filters, and a query as an agent with the parts of each score."""

from typing import cast

from mnema_client.requests import ListFields
from mnema_wire.bases import Page
from mnema_wire.memory import Memory
from nicegui import ui

from console.context import PageContext
from console.pages import memories_query
from console.widgets.filters import Choice, Filter, FilterForm, Moment
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import show_chips, show_line, show_link, show_time
from console.widgets.words import show_mark
from console.words import MEMORY_STATES, MEMORY_TYPES, name_choices, name_word

PAGE_ITEMS = 25
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
    memories_query.show_query(page)


class Browser:
    """The list with its filters."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        with ui.element("section").classes("section").props('aria-label="Find memories"'):
            heading("Find")
            self._form = FilterForm(page, FILTERS, self._refresh, more=MORE_FILTERS)
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Memory": _show_memory,
                    "User": lambda memory: show_line(memory.user_id, 60),
                    "Category": lambda memory: show_chips([memory.category, name_word(MEMORY_TYPES, memory.type)]),
                    "State": lambda memory: show_mark(MEMORY_STATES, memory.state),
                    "Importance": lambda memory: ui.label(str(memory.importance)).classes("number"),
                    "Changed": lambda memory: show_time(memory.updated_at),
                },
                label="Memories",
                empty=self._form.explain_empty(
                    "No memories yet", "Write the first one: POST /memory, or `mnema remember` on the command line."
                ),
            )

    async def _refresh(self) -> None:
        await self._list.refresh()

    async def _fetch(self, cursor: str | None) -> Page[Memory]:
        values = self._form.values
        sort, _dash, order = values.pop("sort").partition("-")
        filters = cast(ListFields, {**values, "sort": sort, "order": order, "limit": PAGE_ITEMS})
        return await self._page.memory.page(cursor=cursor, **filters)


def _show_memory(memory: Memory) -> None:
    with ui.element("div").classes("row"):
        if memory.pinned:
            show_chips(["pinned"])
        show_link(memory.text or "(no text)", f"/memories/{memory.id}")
    if memory.tags:
        show_chips(memory.tags[:10])
