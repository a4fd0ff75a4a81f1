"""One answered query in a thread: what an agent was told, with the texts as they were then."""

from mnema_client.receipts import QueryReceipt, ToldItem, ToldQuery
from nicegui import ui

from console.context import PageContext
from console.texts import shorten_text
from console.widgets.section import Section
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_line, show_link, show_text, show_time


def show_answer(page: PageContext, receipt: QueryReceipt) -> None:
    """Show a receipt. Its texts are loaded when they are asked for."""
    Answer(page, receipt)


class Answer:
    """A receipt in the list of a thread."""

    def __init__(self, page: PageContext, receipt: QueryReceipt) -> None:
        self._page = page
        self._receipt = receipt
        with ui.element("div").classes("answer"):
            with ui.element("div").classes("row"):
                ui.label("answer").classes("chip good")
                show_line(f"to {receipt.agent}" if receipt.agent else f"by {receipt.via}", 60)
                show_time(receipt.ts)
                link = show_link("Open", f"/answers/{receipt.query_id}")
                link.props["aria-label"] = "Open this answer"
            ui.label(_sum_up(receipt)).classes("soft")
            if receipt.degraded:
                show_note(f"Part of the search was not available: {shorten_text(receipt.degraded, 80)}.", "warning")
            self._button = ui.button("What it was told", on_click=self._toggle).props("flat dense aria-expanded=false")
            self._told = Section(page, self._fetch, self._show_told, at_once=False)
            self._told.element.classes(remove="section").set_visibility(False)

    async def _toggle(self) -> None:
        shown = not self._told.element.visible
        self._told.element.set_visibility(shown)
        self._button.props(f"aria-expanded={'true' if shown else 'false'}")
        if shown:
            await self._told.refresh()

    async def _fetch(self) -> ToldQuery:
        return await self._page.memory.get_query(self._receipt.query_id)

    def _show_told(self, told: ToldQuery) -> None:
        if told.header:
            ui.label("Header").classes("soft")
            show_text(told.header, "code block")
        items = [item for item in told.items if item.part != "header"]
        if not items and not told.header:
            show_empty_state("Nothing", "The answer was empty, or your key may not see what it told.")
        with ui.element("ul").classes("stack plain"):
            for item in items:
                with ui.element("li").classes("entry"):
                    _show_item(item)


def _sum_up(receipt: QueryReceipt) -> str:
    parts = [_count(receipt.memories, "memory", "memories"), _count(receipt.tokens or 0, "token", "tokens")]
    if receipt.header_to is not None:
        parts.append(f"header from revision {receipt.header_from or 0:,} to {receipt.header_to:,}")
    if receipt.relevance is not None:
        parts.append(f"best relevance {receipt.relevance:.2f}")
    return ", ".join(parts)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _show_item(item: ToldItem) -> None:
    if item.text is None:
        ui.label("The memory is purged; its text is gone.").classes("soft")
    else:
        show_text(item.text)
    with ui.element("div").classes("row"):
        show_line(item.part, 20).classes("chip")
        show_line(item.category, 60).classes("soft")
        if item.relevance is not None:
            ui.label(f"relevance {item.relevance:.2f}").classes("soft")
        if item.part != "fact" and item.text is not None:
            show_link("Open", f"/memories/{item.memory_id}").props["aria-label"] = "Open this memory"
        changed = _tell_change(item)
        if changed:
            ui.label(changed).classes("chip warn")


def _tell_change(item: ToldItem) -> str:
    """Return what happened to the memory since then; "" if nothing did."""
    if item.state_now is not None and item.state_now != "active":
        return f"now {shorten_text(item.state_now, 30).replace('_', '-')}"
    if item.version is not None and item.version_now is not None and item.version_now != item.version:
        return f"version {item.version} then, {item.version_now} now"
    return ""
