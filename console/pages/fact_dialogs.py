"""The dialogs of one fact: another value, and its history."""

from collections.abc import Awaitable, Callable
from typing import Any

from mnema_client import MnemaError, facts
from mnema_wire.facts import Fact
from mnema_wire.memory import HistoryEntry
from nicegui import ui

from console.context import PageContext, SessionOver
from console.texts import shorten_text
from console.widgets.counted import CountedText
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.states import show_error
from console.widgets.text import show_line, show_text, show_time
from console.widgets.words import show_mark
from console.words import CHANGES, FACT_ACTIONS

HISTORY_ITEMS = 20
LONGEST_VALUE = 200
"""Characters of a value, as the server has them unless its operator or the tenant's rules chose others."""


def name_fact(fact: Fact) -> str:
    """Return the name of a fact, such as `color, rank 2`; it may be shown as text only."""
    return shorten_text(fact.topic_key, 80) + ("" if fact.rank is None else f", rank {fact.rank}")


class ValueDialog:
    """The dialog that gives a fact another value."""

    def __init__(self, page: PageContext, fact: Fact, on_saved: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._fact = fact
        self._on_saved = on_saved
        with ui.dialog().props('aria-label="Edit the fact"') as self._dialog, ui.card().classes("dialog"):
            heading(f"Edit {name_fact(fact)}")
            self._value = CountedText("Value", LONGEST_VALUE, fact.value)
            self._value.field.props("autofocus").mark("fact-value").on("keydown.enter.prevent", self._save)
            self._state = ui.element("div").classes("stack")
            with ui.element("div").classes("row end"):
                ui.button("Cancel", on_click=self._dialog.delete).props("outline")
                ui.button("Save", on_click=self._save)
        self._dialog.on("hide", self._dialog.delete)

    def open(self) -> None:
        """Open the dialog."""
        self._dialog.open()

    async def _save(self) -> None:
        value = self._value.value.strip()
        if value == self._fact.value:
            self._dialog.delete()
            return
        try:
            await self._page.memory.set_fact(self._fact.id, value)
        except (MnemaError, SessionOver) as error:
            if self._dialog.is_deleted:
                self._page.report_error(error)
            elif not self._page.ends_session(error):
                failure = error
                self._state.clear()
                with self._state:
                    show_error(failure)
            return
        with self._page.client:
            ui.notify("Saved", type="positive")
            if not self._dialog.is_deleted:  # as after Esc while a save was on its way
                self._dialog.delete()
            await self._on_saved()


class FactHistory:
    """The dialog with the history of a fact, newest change first."""

    def __init__(self, page: PageContext, fact: Fact) -> None:
        with ui.dialog().props('aria-label="History of the fact"') as self._dialog, ui.card().classes("dialog"):
            heading(f"History of {name_fact(fact)}")
            KeysetList(
                page,
                lambda cursor: page.memory.send(facts.fact_history(fact.id, limit=HISTORY_ITEMS, cursor=cursor)),
                build_entry=_show_entry,
                label="Changes, newest first",
                empty=("No history", "Your key may see no entry of the audit trail."),
            )
            with ui.element("div").classes("row end"):
                ui.button("Close", on_click=self._dialog.close).props("outline autofocus")
        self._dialog.on("hide", self._dialog.delete)

    def open(self) -> None:
        """Open the dialog."""
        self._dialog.open()


def _show_entry(entry: HistoryEntry) -> None:
    with ui.element("div").classes("row"):
        if action := _read_action(entry.meta):
            show_mark(FACT_ACTIONS, action)
        else:
            show_mark(CHANGES, entry.event)
        show_time(entry.ts)
        if entry.actor:
            show_line(f"by {entry.actor}", 80).classes("soft")
    before, after = (_read_value(entry.meta.get(name)) for name in ("before", "after"))
    if before:
        show_text(before).classes("soft")
    if after:
        show_text(f"→ {after}" if before else after)


def _read_action(meta: dict[str, Any]) -> str:
    return str(meta.get("action") or "")


def _read_value(row: Any) -> str:
    return str(row.get("value") or "") if isinstance(row, dict) else ""
