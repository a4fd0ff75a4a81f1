"""The page Memories: a list with filters, and a query as an agent with the parts of each score."""

from typing import Any, cast

from mnema_client.models import Memory, Page
from mnema_client.requests import ListFields
from nicegui import ui

from console.context import PageContext, page_address
from console.pages import memories_query
from console.session import COOKIE_PATH
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import show_chips, show_line, show_link, show_time

PAGE_ITEMS = 25
LONGEST_FILTER = 1000
TYPES = ["semantic", "episodic", "procedural", "insight", "turn", "summary", "chunk"]
STATES = {"active": "Active", "superseded": "Superseded", "soft_deleted": "In the bin"}
SORTS = {
    "created_at-desc": "Newest first",
    "created_at-asc": "Oldest first",
    "updated_at-desc": "Last changed first",
    "importance-desc": "Most important first",
}
DEFAULTS = {"state": "active", "sort": "created_at-desc"}
FIRST_FILTERS = {"q": "Words", "user_id": "User", "category": "Category"}
MORE_FILTERS = {"thread_id": "Thread", "agent_id": "Agent", "tag": "Tag"}
SENT = {*FIRST_FILTERS, *MORE_FILTERS, "type", "state", "pinned", "importance_min"}


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
        self._values = {name: value[:LONGEST_FILTER] for name, value in page.params.items() if value}
        with ui.element("section").classes("section").props('aria-label="Find memories"'):
            heading("Find")
            self._show_filters()
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Memory": _show_memory,
                    "User": lambda memory: show_line(memory.user_id, 60),
                    "Category": lambda memory: show_chips([memory.category, memory.type]),
                    "Importance": lambda memory: ui.label(str(memory.importance)).classes("number"),
                    "Changed": lambda memory: show_time(memory.updated_at),
                },
                label="Memories",
                empty=(
                    "No memory matches",
                    "Remove a filter, or write a memory: POST /memory, or `mnema remember` on the command line.",
                ),
            )

    def _show_filters(self) -> None:
        with ui.element("div").classes("filters"):
            for name, label in FIRST_FILTERS.items():
                field = self._text_field(name, label)
                if name == "q":
                    field.props("data-search")
            self._choice("type", "Type", {"": "All types", **{name: name for name in TYPES}})
            self._choice("state", "State", STATES)
        is_open = any(self._values.get(name) for name in (*MORE_FILTERS, "pinned", "importance_min"))
        more = ui.expansion("More filters and order", value=is_open).classes("wide")
        with more, ui.element("div").classes("filters"):
            for name, label in MORE_FILTERS.items():
                self._text_field(name, label)
            self._choice("pinned", "Pinned", {"": "All", "true": "Pinned", "false": "Not pinned"})
            steps = {str(least): f"{least} or more" for least in range(2, 6)}
            self._choice("importance_min", "Importance", {"": "All", **steps})
            self._choice("sort", "Order", SORTS)
        with ui.element("div").classes("row"):
            ui.button("Search", on_click=self._search)
            ui.button("Clear", on_click=lambda: self._page.go_to("/memories")).props("outline")

    def _text_field(self, name: str, label: str) -> ui.input:
        def keep_value(event: Any) -> None:
            self._values[name] = (event.value or "")[:LONGEST_FILTER]

        field = ui.input(label, value=self._values.get(name, ""), on_change=keep_value)
        field.on("keydown.enter", self._search).props("dense outlined clearable autocomplete=off")
        return field.mark(f"filter-{name}")

    def _choice(self, name: str, label: str, options: dict[str, str]) -> None:
        def keep_value(event: Any) -> None:
            self._values[name] = event.value

        chosen, default = self._values.get(name, ""), DEFAULTS.get(name, "")
        self._values[name] = chosen if chosen in options else default
        field = ui.select(options, label=label, value=self._values[name], on_change=keep_value)
        field.props("dense outlined options-dense").mark(f"filter-{name}")

    async def _search(self) -> None:
        shown = {name: value for name, value in self._values.items() if value and value != DEFAULTS.get(name)}
        ui.navigate.history.replace(COOKIE_PATH + page_address("/memories", **shown))
        await self._list.refresh()

    async def _fetch(self, cursor: str | None) -> Page[Memory]:
        sort, _dash, order = self._values["sort"].partition("-")
        filters: dict[str, Any] = {name: value for name, value in self._values.items() if value and name in SENT}
        filters |= {"sort": sort, "order": order, "limit": PAGE_ITEMS}
        return await self._page.memory.page(cursor=cursor, **cast(ListFields, filters))


def _show_memory(memory: Memory) -> None:
    with ui.element("div").classes("row"):
        if memory.pinned:
            show_chips(["pinned"])
        show_link(memory.text or "(no text)", f"/memories/{memory.id}")
    if memory.tags:
        show_chips(memory.tags[:10])
