"""The events one by one, newest first, with filters."""

from contextlib import suppress
from datetime import datetime
from typing import Any, cast

from mnema_client.models import Page
from mnema_client.overview import Event, EventFields
from nicegui import ui

from console.context import PageContext, page_address
from console.session import COOKIE_PATH
from console.widgets.days import read_end_of_day
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.text import show_chips, show_line, show_link, show_time

PAGE_ITEMS = 50
LONGEST_FILTER = 200
TEXTS = {"op": "Operation", "user_id": "User", "thread_id": "Thread", "since": "Since", "until": "Until"}
NODES = {"": "All parts", "hotpath": "hotpath", "context": "context", "episodic": "episodic", "worker": "worker"}
OUTCOMES = {"": "All outcomes", "ok": "ok", "error": "error", "skipped": "skipped"}
MARKS = {"ok": "good", "error": "bad", "skipped": "warn"}


def show_events(page: PageContext) -> None:
    """Show the list with its filters, which are in the page's address."""
    EventList(page)


class EventList:
    """The list with its filters."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        names = (*TEXTS, "node", "status")
        self._values = {name: page.params.get(name, "")[:LONGEST_FILTER] for name in names}
        with ui.element("section").classes("section").props('aria-label="One by one"'):
            heading("One by one")
            with ui.element("div").classes("filters"):
                for name, label in TEXTS.items():
                    self._text_field(name, label)
                self._choice("node", "Part", NODES)
                self._choice("status", "Outcome", OUTCOMES)
            with ui.element("div").classes("row"):
                ui.button("Search", on_click=self._search)
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Time": lambda event: show_time(event.ts),
                    "Operation": lambda event: show_chips([event.op, event.node]),
                    "Outcome": _show_outcome,
                    "User": lambda event: show_line(event.user_id or "", 60),
                    "Thread": _show_thread,
                    "Memory": _show_memory,
                },
                label="Events",
                empty=(
                    "No event matches",
                    "Remove a filter. Writes and queries add events.",
                ),
            )

    def _text_field(self, name: str, label: str) -> None:
        def keep_value(event: Any) -> None:
            self._values[name] = (event.value or "")[:LONGEST_FILTER]

        field = ui.input(label, value=self._values[name], on_change=keep_value)
        field.on("keydown.enter", self._search).props("dense outlined autocomplete=off").mark(f"filter-{name}")
        if name in ("since", "until"):
            field.props("type=date stack-label")
        if name == "op":
            field.props("data-search")

    def _choice(self, name: str, label: str, options: dict[str, str]) -> None:
        def keep_value(event: Any) -> None:
            self._values[name] = event.value

        if self._values[name] not in options:
            self._values[name] = ""
        field = ui.select(options, label=label, value=self._values[name], on_change=keep_value)
        field.props("dense outlined options-dense").mark(f"filter-{name}")

    async def _search(self) -> None:
        shown = {name: value for name, value in self._values.items() if value}
        ui.navigate.history.replace(COOKIE_PATH + page_address("/events", **shown))
        await self._list.refresh()

    async def _fetch(self, cursor: str | None) -> Page[Event]:
        given: dict[str, str | datetime] = {name: value for name, value in self._values.items() if value}
        with suppress(ValueError):  # the API refuses what is no day, and says why
            if end := read_end_of_day(self._values["until"]):
                given["until"] = end
        filters = cast(EventFields, {**given, "limit": PAGE_ITEMS})
        return await self._page.memory.event_page(cursor=cursor, **filters)


def _show_outcome(event: Event) -> None:
    ui.label(event.status).classes(f"chip {MARKS.get(event.status, '')}")
    if event.similarity is not None:
        ui.label(f"similarity {event.similarity:.2f}").classes("soft")


def _show_thread(event: Event) -> None:
    if event.thread_id:
        show_link(event.thread_id, "/threads", thread_id=event.thread_id)


def _show_memory(event: Event) -> None:
    if event.category:
        show_line(event.category, 60).classes("soft")
    if event.memory_id:
        show_link(f"{event.memory_id[:8]}…", f"/memories/{event.memory_id}")
