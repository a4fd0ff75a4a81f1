"""The selected memories of a list: edit, move and delete them together, as one batch that can be undone."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, cast
from uuid import UUID

from mnema_client import overview
from mnema_client.batches import BatchChangeFields
from mnema_wire.batches import BatchDone
from mnema_wire.memory import Memory
from nicegui import background_tasks, ui

from console.context import PageContext
from console.texts import shorten_text
from console.widgets.confirm import ask_confirmation
from console.widgets.counted import read_tags
from console.widgets.section import heading
from console.widgets.undo import UndoBar
from console.words import LEFT_REASONS, name_word

MOST_SELECTED: Final = 200
"""Memories of one batch."""
MOST_CATEGORIES: Final = 200
UNCHANGED: Final = "Leave as it is"
QUOTED: Final = 3


class Selection:
    """The selected memories, and the buttons for what can be done with them."""

    def __init__(self, page: PageContext, undo: UndoBar, reload: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._undo = undo
        self._reload = reload
        self._chosen: dict[UUID, Memory] = {}
        self._boxes: dict[UUID, tuple[Memory, ui.checkbox]] = {}
        with ui.element("div").classes("row selection").props('role=group aria-label="Selected memories"') as self._bar:
            self._count = ui.label("").props("role=status")
            ui.button("Select all shown", on_click=self._select_all).props("outline dense")
            self._actions = [
                ui.button("Edit or move", on_click=self._edit).props("outline dense"),
                ui.button("Delete", on_click=self._delete).props("outline dense color=negative"),
                ui.button("Clear the selection", on_click=self.clear).props("flat dense"),
            ]
        self._show_count()

    def forget_shown(self) -> None:
        """Forget the boxes of a list that loads again, and the selection with them."""
        self._boxes.clear()
        self._chosen.clear()
        self._show_count()

    def add_box(self, memory: Memory) -> None:
        """Add the box that selects a memory. Batches change active memories alone."""
        if memory.state != "active":
            return
        box = ui.checkbox(on_change=lambda event: self._choose(memory, bool(event.value)))
        box.props("dense").props["aria-label"] = f"Select {shorten_text(memory.text, 60)}"
        self._boxes[memory.id] = memory, box

    def clear(self) -> None:
        """Select nothing."""
        for _memory, box in self._boxes.values():
            box.set_value(False)

    def _select_all(self) -> None:
        for _memory, box in self._boxes.values():
            box.set_value(True)

    def _choose(self, memory: Memory, chosen: bool) -> None:
        if not chosen:
            self._chosen.pop(memory.id, None)
        elif len(self._chosen) < MOST_SELECTED:
            self._chosen[memory.id] = memory
        else:
            ui.notify(f"At most {MOST_SELECTED} memories at once.", type="warning")
            self._boxes[memory.id][1].set_value(False)
        self._show_count()

    def _show_count(self) -> None:
        count = len(self._chosen)
        self._count.set_text(f"{count:,} selected" if count else "None selected")
        for button in self._actions:
            button.set_enabled(count > 0)

    def _filters(self) -> dict[str, Any]:
        return {"where": {"id": {"in": [str(memory_id) for memory_id in self._chosen]}}}

    def _edit(self) -> None:
        BatchDialog(self._page, len(self._chosen), self._save).open()

    async def _save(self, changes: BatchChangeFields) -> None:
        await self._finish(self._page.memory.edit_matching(self._filters(), **changes), "Changed")

    async def _delete(self) -> None:
        texts = [f"“{shorten_text(memory.text, 80)}”" for memory in list(self._chosen.values())[:QUOTED]]
        texts += [f"and {len(self._chosen) - QUOTED:,} more"] if len(self._chosen) > QUOTED else []
        texts.append("No answer contains them then. They can be restored until they are deleted for good.")
        title = f"Move {_count(len(self._chosen))} to the bin?"
        if await ask_confirmation(title, "\n".join(texts), action="Move to the bin"):
            await self._finish(self._page.memory.delete_matching(self._filters()), "Moved to the bin:")

    async def _finish(self, work: Awaitable[BatchDone], done: str) -> None:
        result = await self._page.attempt(work)
        if result is None:
            return
        batch_id = result.batch_id
        undo = None if batch_id is None else lambda: self._page.memory.undo_batch(batch_id)
        self._undo.show(explain_batch(result, done), undo)
        await self._reload()


class BatchDialog:
    """The dialog that changes several memories. `save` gets the fields that the person chose."""

    def __init__(self, page: PageContext, count: int, save: Callable[[BatchChangeFields], Awaitable[None]]) -> None:
        self._page = page
        self._save = save
        title = f"Edit {_count(count)}"
        with ui.dialog() as self._dialog, ui.card().classes("dialog"):
            self._dialog.props["aria-label"] = title
            heading(title)
            with ui.element("div").classes("filters"):
                self._category = ui.select({"": UNCHANGED}, label="Move to the category", value="")
                levels = {0: UNCHANGED, **{level: str(level) for level in range(1, 6)}}
                self._importance = ui.select(levels, label="Importance", value=0)
                pins = {"": UNCHANGED, "yes": "Pin", "no": "Unpin"}
                self._pinned = ui.select(pins, label="Pinned", value="")
            self._added = ui.textarea("Tags to add, one a line").mark("add-tags")
            self._removed = ui.textarea("Tags to remove, one a line").mark("remove-tags")
            for field in (self._category, self._importance, self._pinned):
                field.props("outlined dense options-dense")
            for area in (self._added, self._removed):
                area.classes("wide").props("outlined dense autogrow")
            with ui.element("div").classes("row end"):
                ui.button("Cancel", on_click=self._dialog.delete).props("outline")
                ui.button("Save", on_click=self._submit)
        self._dialog.on("hide", self._dialog.delete)
        background_tasks.create(self._load_categories(), name="load categories")

    def open(self) -> None:
        """Open the dialog."""
        self._dialog.open()

    async def _load_categories(self) -> None:
        call = overview.category_page(limit=MOST_CATEGORIES)
        found = await self._page.attempt(self._page.memory.send(call))
        if found is not None and not self._dialog.is_deleted:
            names = {category.name: category.name for category in found.items}
            self._category.set_options({"": UNCHANGED, **names}, value=self._category.value)

    async def _submit(self) -> None:
        fields = {
            "category": self._category.value or None,
            "importance": self._importance.value or None,
            "pinned": {"yes": True, "no": False}.get(self._pinned.value),
            "add_tags": read_tags(self._added.value or ""),
            "remove_tags": read_tags(self._removed.value or ""),
        }
        changes = {name: value for name, value in fields.items() if value is not None and value != []}
        if not changes:
            ui.notify("Choose what to change.", type="warning")
            return
        self._dialog.delete()
        await self._save(cast(BatchChangeFields, changes))


def explain_batch(result: BatchDone, done: str) -> str:
    """Return in words what a batch did, and why it left memories as they were."""
    left = [f"{count:,} {name_word(LEFT_REASONS, reason)}" for reason, count in result.skipped.items() if count]
    words = f"{done} {_count(result.changed)}."
    return f"{words} Left as they were: {', '.join(left)}." if left else words


def _count(count: int) -> str:
    return "1 memory" if count == 1 else f"{count:,} memories"
