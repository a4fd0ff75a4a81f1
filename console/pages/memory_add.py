"""The dialog that adds a memory."""

from collections.abc import Awaitable, Callable
from typing import Final, cast

from mnema_client import MnemaError, overview
from mnema_client.requests import MemoryFields
from mnema_wire.memory import Written
from nicegui import background_tasks, ui

from console.context import PageContext, SessionOver
from console.widgets.counted import LONGEST_NAME, LONGEST_TEXTS, CountedText, read_tags
from console.widgets.section import heading
from console.widgets.states import show_error
from console.widgets.user_field import add_user_field
from console.words import MEMORY_TYPES, name_word

MOST_CATEGORIES: Final = 200
TYPES: Final = ("semantic", "episodic", "procedural", "insight")
"""The types that a person writes by hand."""


class AddDialog:
    """The dialog. `on_added` receives the result of the write."""

    def __init__(self, page: PageContext, on_added: Callable[[Written], Awaitable[None]], user_id: str = "") -> None:
        self._page = page
        self._on_added = on_added
        with ui.dialog().props('aria-label="Add a memory"') as self._dialog, ui.card().classes("dialog"):
            heading("Add a memory")
            self._text = CountedText("Text", LONGEST_TEXTS["semantic"])
            self._text.field.props("autofocus").mark("add-text")
            with ui.element("div").classes("filters"):
                types = {name: name_word(MEMORY_TYPES, name) for name in TYPES}
                self._type = ui.select(types, label="Type", value="semantic", on_change=self._follow_type)
                self._type.props("outlined dense")
                self._user = add_user_field(page, value=user_id)
                self._category = ui.select([], label="Category").props("outlined dense options-dense")
                self._importance = ui.select(list(range(1, 6)), label="Importance", value=3).props("outlined dense")
                self._thread = ui.input("Thread (empty: none)")
                self._thread.props(f"outlined dense autocomplete=off maxlength={LONGEST_NAME}")
            self._steps = CountedText("Steps, numbered, one a line", LONGEST_TEXTS["procedural"])
            self._tags = ui.textarea("Tags, one a line").classes("wide").props("outlined dense autogrow")
            with ui.element("div").classes("row"):
                self._pinned = ui.checkbox("Pinned: it is never forgotten")
            self._state = ui.element("div").classes("stack").props("aria-live=polite")
            with ui.element("div").classes("row end"):
                ui.button("Cancel", on_click=self._dialog.delete).props("outline")
                ui.button("Add", on_click=self._save)
        self._follow_type()
        self._dialog.on("hide", self._dialog.delete)
        background_tasks.create(self._load_categories(), name="load categories")

    def open(self) -> None:
        """Open the dialog."""
        self._dialog.open()

    def _follow_type(self) -> None:
        is_procedure = self._type.value == "procedural"
        self._text.set_limit(LONGEST_TEXTS[self._type.value])
        self._steps.set_visibility(is_procedure)
        if is_procedure and "procedural" in self._category.options:
            self._category.set_value("procedural")

    async def _load_categories(self) -> None:
        call = overview.category_page(limit=MOST_CATEGORIES)
        found = await self._page.attempt(self._page.memory.send(call))
        if found is not None and not self._dialog.is_deleted:
            self._category.set_options([category.name for category in found.items], value=self._category.value)

    async def _save(self) -> None:
        user, category = (self._user.value or "").strip(), self._category.value
        if not self._text.value.strip() or not user or not category:
            ui.notify("Give a text, a user and a category.", type="warning")
            return
        fields = {
            "user_id": user,
            "category": category,
            "type": self._type.value,
            "importance": self._importance.value,
            "thread_id": self._thread.value.strip() or None,
            "tags": read_tags(self._tags.value or ""),
            "pinned": self._pinned.value,
            "steps_text": self._steps.value.strip() or None if self._type.value == "procedural" else None,
        }
        try:
            written = await self._page.memory.remember(self._text.value, **cast(MemoryFields, fields))
        except (MnemaError, SessionOver) as error:
            self._show_failure(error)
            return
        with self._page.client:
            if not self._dialog.is_deleted:  # as after Esc while the write was on its way
                self._dialog.delete()
            await self._on_added(written)

    def _show_failure(self, error: Exception) -> None:
        if self._dialog.is_deleted:
            self._page.report_error(error)
        elif not self._page.ends_session(error):
            self._state.clear()
            with self._state:
                show_error(error)
