"""The page Threads: the threads with their counts, and one thread."""

from mnema_wire.overview import ThreadOverview
from nicegui import ui

from console.context import PageContext
from console.pages.thread import ThreadPage
from console.widgets.filters import LONGEST_FILTER, FilterForm
from console.widgets.keyset import KeysetList
from console.widgets.states import show_note
from console.widgets.text import show_link, show_time

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
            show_link(user_id, "/people", user_id=user_id)
        if thread.users > SHOWN_USERS:
            ui.label(f"and {thread.users - SHOWN_USERS:,} more").classes("soft")
