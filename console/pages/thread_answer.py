"""One answered query in a thread: what an agent was told, with the texts as they were then."""

from mnema_wire.receipts import QueryReceipt, ToldQuery
from nicegui import ui

from console.context import PageContext
from console.pages.told_items import explain_degraded, show_told
from console.widgets.section import Section
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_line, show_link, show_time


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
                show_note(explain_degraded(receipt.degraded), "warning")
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
        if not told.header and not told.items:
            show_empty_state("Nothing", "The answer was empty, or your key may not see what it told.")
        show_told(self._page, told, level=3, with_header_items=False)


def _sum_up(receipt: QueryReceipt) -> str:
    parts = [_count(receipt.memories, "memory", "memories"), _count(receipt.tokens or 0, "token", "tokens")]
    if receipt.header_to is not None:
        parts.append(f"header from revision {receipt.header_from or 0:,} to {receipt.header_to:,}")
    if receipt.relevance is not None:
        parts.append(f"best relevance {receipt.relevance:.2f}")
    return ", ".join(parts)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
