"""The events one by one, newest first, with filters."""

from contextlib import suppress
from datetime import datetime
from typing import cast

from mnema_client.overview import EventFields
from mnema_wire.bases import Page
from mnema_wire.overview import Event
from nicegui import ui

from console.context import PageContext
from console.widgets.days import read_end_of_day
from console.widgets.filters import Choice, Day, Filter, FilterForm
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.text import show_line, show_link, show_time
from console.widgets.words import show_mark, show_word
from console.words import OPERATIONS, OUTCOMES, PARTS, name_choices

PAGE_ITEMS = 50


def show_events(page: PageContext) -> None:
    """Show the list with its filters, which are in the page's address."""
    EventList(page)


class EventList:
    """The list with its filters."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        operations = name_choices(OPERATIONS, "All operations", page.params.get("op", ""))
        filters: dict[str, Filter] = {
            "op": Choice("Operation", operations),
            "user_id": "User",
            "thread_id": "Thread",
            "since": Day("Since"),
            "until": Day("Until"),
            "node": Choice("Part", name_choices(PARTS, "All parts")),
            "status": Choice("Outcome", name_choices(OUTCOMES, "All outcomes")),
        }
        with ui.element("section").classes("section").props('aria-label="One by one"'):
            heading("One by one")
            self._form = FilterForm(page, filters, self._refresh)
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Time": lambda event: show_time(event.ts),
                    "Operation": _show_operation,
                    "Outcome": _show_outcome,
                    "User": lambda event: show_line(event.user_id or "", 60),
                    "Thread": _show_thread,
                    "Memory": _show_memory,
                },
                label="Events",
                empty=self._form.explain_empty("No events yet", "Writes and queries add events."),
            )

    async def _refresh(self) -> None:
        await self._list.refresh()

    async def _fetch(self, cursor: str | None) -> Page[Event]:
        values = self._form.values
        given: dict[str, str | datetime] = {**values}
        with suppress(ValueError):  # the API refuses what is no day, and says why
            if end := read_end_of_day(values.get("until")):
                given["until"] = end
        filters = cast(EventFields, {**given, "limit": PAGE_ITEMS})
        return await self._page.memory.event_page(cursor=cursor, **filters)


def _show_operation(event: Event) -> None:
    show_word(OPERATIONS, event.op)
    show_word(PARTS, event.node).classes("soft")


def _show_outcome(event: Event) -> None:
    show_mark(OUTCOMES, event.status)
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
