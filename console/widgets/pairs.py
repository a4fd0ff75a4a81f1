"""Names with their values, one below the other."""

from collections.abc import Callable, Mapping

from nicegui import ui

from console.widgets.text import show_text


def show_pairs(values: Mapping[str, str | Callable[[], object]]) -> None:
    """Show named values. A value is a text, which may be a caller's, or a function that builds its elements."""
    with ui.element("dl").classes("pairs"):
        for name, value in values.items():
            with ui.element("dt"):
                ui.label(name)
            with ui.element("dd"):
                if isinstance(value, str):
                    show_text(value)
                else:
                    value()
