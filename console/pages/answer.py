"""The page of one answer: what an agent was told, with the texts as they were then."""

from uuid import UUID

from mnema_wire.receipts import ToldQuery

from console.context import PageContext
from console.pages.told_items import explain_degraded, show_told
from console.times import format_time
from console.widgets.pairs import show_pairs
from console.widgets.section import Section
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_id, show_link, show_user


def show(page: PageContext) -> None:
    """Show the page."""
    try:
        query_id = UUID(page.params.get("query_id", ""))
    except ValueError:
        show_empty_state("This is not an answer's id", "Open an answer from a memory or a thread.")
        return
    Section(page, lambda: page.memory.get_query(query_id), lambda told: _show_answer(page, told))


def _show_answer(page: PageContext, told: ToldQuery) -> None:
    show_note("This is what the agent was told. Its question is not kept.")
    if told.degraded:
        show_note(explain_degraded(told.degraded), "warning")
    _show_circumstances(told)
    show_told(page, told, level=2)
    if not told.items:
        show_empty_state("The answer had no items", "Nothing that the agent may see answered the question.")


def _show_circumstances(told: ToldQuery) -> None:
    user, thread = told.user_id, told.thread_id
    pairs = {
        "when": format_time(told.ts),
        "agent": told.agent or f"({told.via})",
        "user": (lambda: show_user(user)) if user else "all of the tenant",
        "thread": (lambda: show_link(thread, "/threads", thread_id=thread)) if thread else "none",
        "tokens": "" if told.tokens is None else str(told.tokens),
        "best relevance": "" if told.relevance is None else f"{told.relevance:.2f}",
        "revisions": f"{told.header_from} to {told.header_to}" if told.header_to is not None else "",
        "id": lambda: show_id(told.query_id),
    }
    show_pairs({name: value for name, value in pairs.items() if value})
