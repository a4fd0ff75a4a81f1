"""The page of one answer: what an agent was told, with the texts as they were then."""

from uuid import UUID

from mnema_client.receipts import ToldItem, ToldQuery
from nicegui import ui

from console.context import PageContext
from console.widgets.pairs import show_pairs
from console.widgets.section import Section, heading
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import format_time, show_chips, show_id, show_link, show_text

PARTS = {
    "header": "In the header: what had changed in the thread",
    "fact": "From facts",
    "item": "Items",
    "related": "Related",
}


def show(page: PageContext) -> None:
    """Show the page."""
    try:
        query_id = UUID(page.params.get("query_id", ""))
    except ValueError:
        show_empty_state("This is not an answer's id", "Open an answer from a memory or a thread.")
        return
    Section(page, lambda: page.memory.get_query(query_id), _show_answer)


def _show_answer(told: ToldQuery) -> None:
    show_note("This is what the agent was told. Its question is not kept.")
    if told.degraded:
        show_note(f"Part of the search was not available: {told.degraded}.", "warning")
    _show_circumstances(told)
    if told.header:
        heading("Header")
        show_text(told.header, "code block")
    for part, title in PARTS.items():
        items = [item for item in told.items if item.part == part]
        if items:
            heading(title)
            with ui.element("ul").classes("stack plain"):
                for item in items:
                    with ui.element("li").classes("entry"):
                        _show_item(item)
    if not told.items:
        show_empty_state("The answer had no items", "Nothing that the agent may see answered the question.")


def _show_circumstances(told: ToldQuery) -> None:
    user, thread = told.user_id, told.thread_id
    pairs = {
        "when": format_time(told.ts),
        "agent": told.agent or f"({told.via})",
        "user": (lambda: show_link(user, "/people", user_id=user)) if user else "all of the tenant",
        "thread": (lambda: show_link(thread, "/threads", thread_id=thread)) if thread else "none",
        "tokens": "" if told.tokens is None else str(told.tokens),
        "best relevance": "" if told.relevance is None else f"{told.relevance:.2f}",
        "revisions": f"{told.header_from} to {told.header_to}" if told.header_to is not None else "",
        "id": lambda: show_id(told.query_id),
    }
    show_pairs({name: value for name, value in pairs.items() if value})


def _show_item(item: ToldItem) -> None:
    if item.text is None:
        ui.label("The text was deleted for good.").classes("soft")
    else:
        show_text(item.text)
    with ui.element("div").classes("row"):
        show_chips([item.category])
        if item.relevance is not None:
            ui.label(f"relevance {item.relevance:.2f}").classes("soft")
        if item.version is not None:
            show_link(f"version {item.version}", f"/memories/{item.memory_id}")
        if item.version_now is not None and item.version_now != item.version:
            ui.label(f"now version {item.version_now}").classes("chip warn")
        if item.state_now not in (None, "active"):
            ui.label(f"now {str(item.state_now).replace('_', '-')}").classes("chip bad")
