"""The page Bin: the memories in it, the time at which each is deleted for good, and the way back."""

from mnema_wire.bases import Page
from mnema_wire.memory import Memory
from nicegui import ui

from console.context import PageContext
from console.texts import shorten_text
from console.times import format_time
from console.widgets.acting import change_and_reload
from console.widgets.confirm import ask_confirmation
from console.widgets.filters import FilterForm
from console.widgets.keyset import KeysetList
from console.widgets.states import show_note
from console.widgets.text import show_chips, show_link, show_time, show_user
from console.words import MEMORY_TYPES, name_word

PAGE_ITEMS = 25
QUOTED = 200


def show(page: PageContext) -> None:
    """Show the page."""
    if not page.key.allows("query"):
        show_note("Your key may not read memories: it has no scope query.", "warning")
        return
    Bin(page)


class Bin:
    """The memories in the bin, by user or all."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        show_note("No answer contains these memories. Each can be restored until it is deleted for good.")
        with ui.element("section").classes("section").props('aria-label="Memories in the bin"'):
            self._form = FilterForm(page, {"user_id": "User", "category": "Category"}, self._refresh)
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Memory": lambda memory: show_link(memory.text or "(no text)", f"/memories/{memory.id}"),
                    "User": lambda memory: show_user(memory.user_id),
                    "Category": lambda memory: show_chips([memory.category, name_word(MEMORY_TYPES, memory.type)]),
                    "In the bin since": lambda memory: show_time(memory.updated_at),
                    "Deleted for good": lambda memory: show_time(memory.purge_at),
                    "Actions": self._show_actions,
                },
                label="Memories in the bin",
                empty=self._form.explain_empty(
                    "The bin is empty", "A memory that is deleted comes here first. Later it is deleted for good."
                ),
            )

    async def _refresh(self) -> None:
        await self._list.refresh()

    async def _fetch(self, cursor: str | None) -> Page[Memory]:
        values = self._form.values
        return await self._page.memory.page(
            state="soft_deleted",
            user_id=values.get("user_id"),
            category=values.get("category"),
            limit=PAGE_ITEMS,
            cursor=cursor,
        )

    def _show_actions(self, memory: Memory) -> None:
        if not self._page.key.allows("write"):
            return
        about = shorten_text(memory.text, 60)
        with ui.element("div").classes("row"):
            restore = ui.button("Restore", on_click=lambda: self._restore(memory)).props("outline dense")
            restore.props["aria-label"] = f"Restore {about}"
            if self._page.key.allows("admin"):
                purge = ui.button("Delete for good", on_click=lambda: self._purge(memory))
                purge.props("flat dense color=negative").props["aria-label"] = f"Delete for good: {about}"

    async def _restore(self, memory: Memory) -> None:
        await change_and_reload(self._page, self._page.memory.restore(memory.id), "Restored", self._refresh)

    async def _purge(self, memory: Memory) -> None:
        consequence = (
            f"“{shorten_text(memory.text, QUOTED)}”\nIts text goes from history and headers too. It cannot be undone. "
            f"Without this, it is deleted for good at {format_time(memory.purge_at)}."
        )
        if not await ask_confirmation("Delete this memory for good now?", consequence, action="Delete now"):
            return

        async def purge() -> bool:
            await self._page.memory.purge(memory.id)
            return True

        await change_and_reload(self._page, purge(), "Deleted for good", self._refresh)
