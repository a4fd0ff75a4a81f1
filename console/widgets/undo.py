"""The last change of a page, and the button that undoes it."""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from console.context import PageContext
from console.texts import reveal_text

LONGEST_TEXT = 300


class UndoBar:
    """A line that says what was just done, with the button Undo until the next change."""

    def __init__(self, page: PageContext, reload: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._reload = reload
        self._box = ui.element("div").props("role=status").classes("stack")

    def show(self, text: str, undo: Callable[[], Awaitable[Any]] | None = None) -> None:
        """Show what was done. `undo`: the call that takes it back; None: it cannot be undone here."""
        if self._box.is_deleted:
            return
        self._box.clear()
        with self._box, ui.element("div").classes("row note"):
            ui.label(reveal_text(text, LONGEST_TEXT)).classes("grow")
            if undo is not None:
                ui.button("Undo", on_click=lambda: self._undo(undo)).props("outline dense")

    async def _undo(self, undo: Callable[[], Awaitable[Any]]) -> None:
        if await self._page.attempt(undo()) is not None:
            self.show("Undone.")
            await self._reload()
