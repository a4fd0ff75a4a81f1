"""Names with their values: one below the other, or as tiles."""

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


def show_tiles(values: Mapping[str, str]) -> None:
    """Show named numbers, each large above its name."""
    with ui.element("div").classes("tiles"):
        for name, value in values.items():
            with ui.element("div").classes("tile"):
                ui.label(value).classes("number")
                ui.label(name).classes("soft")
