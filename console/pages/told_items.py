"""The memories and facts that an answer told, with their texts as they were then."""

from collections.abc import Sequence

from mnema_wire.bases import Page
from mnema_wire.receipts import ToldItem, ToldQuery
from nicegui import ui

from console.context import PageContext
from console.texts import shorten_text
from console.widgets.keyset import KeysetList, cut_page
from console.widgets.section import heading
from console.widgets.text import show_chips, show_link, show_text
from console.widgets.words import show_mark
from console.words import MEMORY_STATES

PAGE_TOLD = 10
PARTS = {
    "header": "In the header: what had changed in the thread",
    "fact": "From facts",
    "item": "Items",
    "related": "Related",
}


def show_told(page: PageContext, told: ToldQuery, *, level: int, with_header_items: bool = True) -> None:
    """Show the header and the items by part, a few at a time. `level`: of the headings."""
    if told.header:
        heading("Header", level)
        show_text(told.header, "code block")
    for part, title in PARTS.items():
        items = [item for item in told.items if item.part == part]
        if items and (with_header_items or part != "header"):
            heading(title, level)
            _list_items(page, items, title)


def explain_degraded(degraded: str) -> str:
    """Return the words for an answer from a part of the search."""
    return f"Part of the search was not available: {shorten_text(degraded, 80)}."


def _list_items(page: PageContext, items: Sequence[ToldItem], label: str) -> None:
    async def fetch(cursor: str | None) -> Page[ToldItem]:
        return cut_page(items, cursor, PAGE_TOLD)

    KeysetList(page, fetch, build_entry=_show_item, label=label, empty=("Nothing was told", ""))


def _show_item(item: ToldItem) -> None:
    if item.text is None:
        ui.label("The text was deleted for good.").classes("soft")
    else:
        show_text(item.text)
    with ui.element("div").classes("row"):
        show_chips([item.category])
        if item.relevance is not None:
            ui.label(f"relevance {item.relevance:.2f}").classes("soft")
        if item.part != "fact" and item.text is not None:
            name = "Open the memory" if item.version is None else f"version {item.version}"
            show_link(name, f"/memories/{item.memory_id}")
        _show_change(item)


def _show_change(item: ToldItem) -> None:
    """Show what happened to the memory since then."""
    if item.state_now is not None and item.state_now != "active":
        ui.label("now:").classes("soft")
        show_mark(MEMORY_STATES, item.state_now)
    if item.version is not None and item.version_now is not None and item.version_now != item.version:
        ui.label(f"now version {item.version_now}").classes("chip warn")
