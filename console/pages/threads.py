"""The page Threads: the threads with their counts, and one thread."""

from mnema_wire.overview import ThreadOverview
from nicegui import ui

from console.context import PageContext
from console.pages.thread_header import NextHeader
from console.pages.thread_story import Story
from console.texts import reveal_text
from console.widgets.filters import LONGEST_FILTER, FilterForm
from console.widgets.keyset import KeysetList
from console.widgets.pairs import show_tiles
from console.widgets.section import Section
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_link, show_time, show_user

PAGE_ITEMS = 50
SHOWN_USERS = 3


def show(page: PageContext) -> None:
    """Show the thread in the address, or the list of threads."""
    if not page.key.allows("query"):
        show_note("Your key may not read threads: it has no scope query.", "warning")
        return
    thread_id = page.params.get("thread_id", "")[:LONGEST_FILTER]
    if thread_id:
        ThreadPage(page, thread_id, page.params.get("user_id", "")[:LONGEST_FILTER])
    else:
        _show_threads(page)


def _show_threads(page: PageContext) -> None:
    async def refresh() -> None:
        await threads.refresh()

    with ui.element("section").classes("section").props("aria-label=Threads"):
        form = FilterForm(page, {"prefix": "Name begins with", "user_id": "User"}, refresh)
        threads = KeysetList(
            page,
            lambda cursor: page.memory.thread_page(
                prefix=form.values.get("prefix"),
                user_id=form.values.get("user_id"),
                limit=PAGE_ITEMS,
                cursor=cursor,
            ),
            {
                "Thread": lambda thread: show_link(
                    thread.thread_id, "/threads", thread_id=thread.thread_id, user_id=form.values.get("user_id")
                ),
                "Users": show_users,
                "Turns": lambda thread: ui.label(f"{thread.turns:,}").classes("number"),
                "Memories": lambda thread: ui.label(f"{thread.memories:,}").classes("number"),
                "Revision": lambda thread: ui.label(f"{thread.revision:,}").classes("number"),
                "Last activity": lambda thread: show_time(thread.last_activity_at),
            },
            label="Threads",
            empty=form.explain_empty(
                "No threads", "A thread appears with its first turn: POST /turns, or a memory with a thread_id."
            ),
        )


def show_users(thread: ThreadOverview) -> None:
    """Show links to the first users of a thread."""
    with ui.element("div").classes("row"):
        for user_id in thread.user_ids[:SHOWN_USERS]:
            show_user(user_id)
        if thread.users > SHOWN_USERS:
            ui.label(f"and {thread.users - SHOWN_USERS:,} more").classes("soft")


class ThreadPage:
    """The parts of the page. `user_id`: only this user's turns and answers; "": all."""

    def __init__(self, page: PageContext, thread_id: str, user_id: str) -> None:
        self._page = page
        self._thread = thread_id
        self._user = user_id
        with ui.element("div").classes("row"):
            show_link("All threads", "/threads")
            if user_id:
                show_link("This thread with all its users", "/threads", thread_id=thread_id)
        with ui.element("h2"):
            ui.label(reveal_text(thread_id, 400)).classes("text")
        if user_id:
            show_note(f"Only what concerns the user {reveal_text(user_id, 200)}.")
        Section(page, self._fetch_card, self._show_card)
        NextHeader(page, thread_id, user_id)
        Story(page, thread_id, user_id)

    async def _fetch_card(self) -> ThreadOverview | None:
        call = self._page.memory.thread_page(prefix=self._thread, user_id=self._user or None, limit=1)
        return next((thread for thread in (await call).items if thread.thread_id == self._thread), None)

    def _show_card(self, thread: ThreadOverview | None) -> None:
        if thread is None:
            show_empty_state("No active memories", "Nothing in this thread is active, or your key may not see it.")
            return
        show_tiles(
            {
                "turns": f"{thread.turns:,}",
                "memories, with turns": f"{thread.memories:,}",
                "revision": f"{thread.revision:,}",
            }
        )
        with ui.element("div").classes("row"):
            ui.label("last activity").classes("soft")
            show_time(thread.last_activity_at)
        with ui.element("div").classes("row"):
            show_link("Memories", "/memories", thread_id=self._thread, user_id=self._user or None)
            for user_id in thread.user_ids:
                show_user(user_id)
            if thread.users > len(thread.user_ids):
                ui.label(f"and {thread.users - len(thread.user_ids):,} more users").classes("soft")
