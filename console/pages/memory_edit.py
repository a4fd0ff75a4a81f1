"""The dialog that edits a memory. It saves only over the version that the person has seen."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final, Literal

from mnema_client import MnemaError, VersionConflict
from mnema_client.requests import ChangeFields
from mnema_wire.memory import Memory
from nicegui import ui

from console.context import PageContext, SessionOver
from console.widgets.counted import LONGEST_NAME, LONGEST_TEXTS, CountedText, read_tags
from console.widgets.differences import show_differences
from console.widgets.section import heading
from console.widgets.states import show_error, show_note

MomentName = Literal["valid_from", "valid_to", "expires_at"]
MOMENTS: Final[Mapping[MomentName, str]] = {
    "valid_from": "True from",
    "valid_to": "True until",
    "expires_at": "Expires at",
}
"""The labels of the moments. An empty field takes the moment away."""
EMPTY_MOMENTS: Final[Mapping[MomentName, Literal["open", "never"]]] = {
    "valid_from": "open",
    "valid_to": "open",
    "expires_at": "never",
}


class EditDialog:
    """The dialog. If the memory changed meanwhile, it shows the difference, and the next save is over that version."""

    def __init__(self, page: PageContext, memory: Memory, on_saved: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._memory = memory
        self._version = memory.version
        self._on_saved = on_saved
        with ui.dialog().props('aria-label="Edit the memory"') as self._dialog, ui.card().classes("dialog"):
            heading("Edit the memory")
            self._text = CountedText("Text", LONGEST_TEXTS[memory.type], memory.text)
            self._text.field.mark("edit-text")
            with ui.element("div").classes("filters"):
                self._category = ui.input("Category", value=memory.category)
                self._category.props(f"outlined dense autocomplete=off maxlength={LONGEST_NAME}")
                self._importance = ui.select(list(range(1, 6)), label="Importance", value=memory.importance).props(
                    "outlined dense"
                )
            self._tags = ui.textarea("Tags, one a line", value="\n".join(memory.tags)).classes("wide")
            self._tags.props("outlined dense autogrow").mark("edit-tags")
            with ui.element("div").classes("filters"):
                self._moments = {name: self._moment_input(name) for name in MOMENTS}
            self._state = ui.element("div").classes("stack").props("aria-live=polite")
            with ui.element("div").classes("row end"):
                ui.button("Cancel", on_click=self._dialog.delete).props("outline")
                ui.button("Save", on_click=self._save)
        self._dialog.on("hide", self._dialog.delete)

    def open(self) -> None:
        """Open the dialog."""
        self._dialog.open()

    def _changes(self) -> ChangeFields:
        """Return the fields that the person changed: those that differ from the version the form began with."""
        memory = self._memory
        changed = ChangeFields()
        if self._text.value != memory.text:
            changed["text"] = self._text.value
        if self._category.value.strip() != memory.category:
            changed["category"] = self._category.value.strip()
        if self._importance.value != memory.importance:
            changed["importance"] = self._importance.value
        tags = read_tags(self._tags.value)
        if tags != list(memory.tags):
            changed["tags"] = tags
        for name, field in self._moments.items():
            if (value := field.value.strip()) != _moment_text(memory, name):
                changed[name] = value or EMPTY_MOMENTS[name]
        return changed

    def _moment_input(self, name: MomentName) -> ui.input:
        field = ui.input(MOMENTS[name], value=_moment_text(self._memory, name), placeholder="2026-01-31")
        return field.props("outlined dense autocomplete=off").mark(f"edit-{name}")

    async def _save(self) -> None:
        changes = self._changes()
        if not changes:
            self._close()
            return
        self._state.clear()
        try:
            await self._page.memory.edit(self._memory.id, version=self._version, **changes)
        except VersionConflict:
            await self._show_conflict()
            return
        except (MnemaError, SessionOver) as error:
            self._show_failure(error)
            return
        with self._page.client:
            ui.notify("Saved", type="positive")
            self._close()
            await self._on_saved()

    def _close(self) -> None:
        if not self._dialog.is_deleted:  # as after Esc while a save was on its way
            self._dialog.delete()

    async def _show_conflict(self) -> None:
        """Show how the memory differs from what the person would save; take its version as the one that was seen."""
        try:
            current = await self._page.memory.get(self._memory.id)
        except (MnemaError, SessionOver) as error:
            self._show_failure(error)
            return
        self._version = current.version
        if self._dialog.is_deleted:
            return
        changes = self._changes()
        self._state.clear()
        with self._state:
            below = "Below is what your text changes in it. " if "text" in changes else ""
            show_note(
                f"Somebody else changed this memory: it is version {current.version} now. "
                f"{below}Save again to replace its {', '.join(changes)}.",
                "warning",
            )
            if "text" in changes:
                show_differences(current.text, self._text.value)

    def _show_failure(self, error: Exception) -> None:
        if self._dialog.is_deleted:
            self._page.report_error(error)
            return
        if self._page.ends_session(error):
            return
        self._state.clear()
        with self._state:
            show_error(error)


def _moment_text(memory: Memory, name: MomentName) -> str:
    moment: datetime | None = getattr(memory, name)
    return moment.isoformat() if moment else ""
