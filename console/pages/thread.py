"""One thread: counts, the header that an agent would get now, and the turns with the answers between them."""

from mnema_wire.overview import ThreadOverview
from nicegui import ui

from console.context import PageContext
from console.pages.thread_header import NextHeader
from console.pages.thread_story import Story
from console.texts import reveal_text
from console.widgets.pairs import show_tiles
from console.widgets.section import Section
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_link, show_time


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
                show_link(user_id, "/people", user_id=user_id)
            if thread.users > len(thread.user_ids):
                ui.label(f"and {thread.users - len(thread.user_ids):,} more users").classes("soft")
