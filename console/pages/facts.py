"""The page Facts: what a user stated in lists and single values, with ranks, history, edit and delete."""

from mnema_client import facts
from mnema_wire.bases import Page
from mnema_wire.facts import Fact
from nicegui import ui

from console.context import PageContext
from console.pages.fact_dialogs import FactHistory, ValueDialog, name_fact
from console.texts import shorten_text
from console.widgets.confirm import ask_confirmation
from console.widgets.filters import FilterForm
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import show_line, show_link, show_text, show_time

PAGE_ITEMS = 50
FACT_BYTES = 1_000
QUOTED = 200
LABELS = {"user_id": "User", "topic_key": "Topic", "thread_id": "Thread"}


def show(page: PageContext) -> None:
    """Show the facts of the user in the address, or the users to choose from."""
    if not page.key.allows("query"):
        show_note("Your key may not read facts: it has no scope query.", "warning")
        return
    FactsPage(page)


class FactsPage:
    """The filters, and the facts of one user."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        with ui.element("section").classes("section").props('aria-label="Facts of a user"'):
            self._form = FilterForm(page, LABELS, self._refresh, action="Show facts")
            self._box = ui.element("div").classes("stack")
        self._build()

    async def _refresh(self) -> None:
        self._build()

    def _build(self) -> None:
        self._box.clear()
        with self._box:
            if "user_id" in self._form.values:
                self._show_facts()
            else:
                self._show_users()

    def _show_users(self) -> None:
        heading("Choose a user")
        KeysetList(
            self._page,
            lambda cursor: self._page.memory.user_page(limit=PAGE_ITEMS, cursor=cursor),
            {
                "User": lambda user: show_link(user.user_id, "/facts", user_id=user.user_id),
                "Last activity": lambda user: show_time(user.last_activity_at),
            },
            label="Users",
            empty=("No users yet", "A user appears with the first memory or fact: POST /memory or POST /facts."),
        )

    def _show_facts(self) -> None:
        empty = ("No facts", "The user stated none here. “My favorite color is blue” in a turn states one.")
        if len(self._form.values) > 1:
            empty = ("Nothing matches", "Remove a filter.")
        KeysetList(
            self._page,
            self._fetch,
            {
                "Topic": lambda fact: show_line(fact.topic_key, 80),
                "Rank": lambda fact: ui.label("single" if fact.rank is None else str(fact.rank)).classes("number"),
                "Value": lambda fact: show_text(fact.value, room=FACT_BYTES),
                "Thread": _show_thread,
                "Stated": lambda fact: show_time(fact.created_at),
                "Actions": self._show_actions,
            },
            label="Facts",
            empty=empty,
        )

    async def _fetch(self, cursor: str | None) -> Page[Fact]:
        values = self._form.values
        call = facts.facts(
            values.get("user_id", ""),
            topic_key=values.get("topic_key"),
            thread_id=values.get("thread_id"),
            limit=PAGE_ITEMS,
            cursor=cursor,
        )
        return await self._page.memory.send(call)

    def _show_actions(self, fact: Fact) -> None:
        about = name_fact(fact)
        with ui.element("div").classes("row"):
            if self._page.key.allows("write"):
                edit = ui.button("Edit", on_click=lambda: ValueDialog(self._page, fact, self._refresh).open())
                edit.props("outline dense").props["aria-label"] = f"Edit {about}"
                delete = ui.button("Delete", on_click=lambda: self._delete(fact))
                delete.props("flat dense color=negative").props["aria-label"] = f"Delete {about}"
            history = ui.button("History", on_click=lambda: FactHistory(self._page, fact).open())
            history.props("flat dense").props["aria-label"] = f"History of {about}"

    async def _delete(self, fact: Fact) -> None:
        consequence = f"“{shorten_text(fact.value, QUOTED)}”\nThe other ranks of the list stay as they are."
        if not await ask_confirmation(f"Delete {name_fact(fact)}?", consequence, action="Delete"):
            return
        if await self._page.attempt(self._page.memory.delete_fact(fact.id), "Deleted"):
            await self._refresh()


def _show_thread(fact: Fact) -> None:
    if fact.thread_id is None:
        ui.label("none").classes("soft")
    else:
        show_link(fact.thread_id, "/threads", thread_id=fact.thread_id, user_id=fact.user_id)
