"""States of a part of a page: empty, failed, loading, and notes."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from console.errors import explain_error


def show_empty_state(title: str, hint: str, action: str = "", on_action: Callable[[], Any] | None = None) -> None:
    """Show that there is nothing, and what to do about it. `action`: the label of a button that does it."""
    with ui.element("div").classes("state"):
        ui.label(title).classes("state-title")
        ui.label(hint).classes("soft")
        if action:
            ui.button(action, on_click=on_action)


def show_error(error: Exception, on_retry: Callable[[], Any] | None = None) -> None:
    """Show an error in place: what failed, why, and a button to try again."""
    title, reason = explain_error(error)
    with ui.element("div").classes("state failed").props("role=alert"):
        ui.label(title).classes("state-title")
        ui.label(reason).classes("text")
        if on_retry is not None:
            ui.button("Try again", on_click=on_retry).props("outline")


def show_loading(label: str = "Loading…") -> None:
    """Show that a part is loading. The part itself tells screen readers."""
    with ui.element("div").classes("state loading"):
        ui.spinner(size="1.6em").props("aria-hidden=true")
        ui.label(label).classes("soft")


def show_note(text: str, kind: str = "info") -> None:
    """Show a short note. `kind`: info or warning."""
    with ui.element("p").classes(f"note {kind}").props("role=note"):
        ui.label(text)
