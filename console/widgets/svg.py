"""Pictures as plain SVG, built on the server. Texts of callers are only text content, never attributes or HTML."""

from collections.abc import Iterable

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

TONES = 8
"""Colours of `console.css`: the classes `tone-0` to `tone-7`, and `tone-rest` for all that is beyond them."""


class SvgText(TextElement):
    """An element of SVG that holds a text: `text` or `title`. The browser shows a `title` as a tooltip."""

    def __init__(self, tag: str, text: str) -> None:
        super().__init__(tag=tag, text=text)


def draw(tag: str, classes: str = "", **attributes: float | str) -> ui.element:
    """Add an element of SVG where the context is, and return it. `stroke_width=2` becomes `stroke-width="2"`."""
    return _set(ui.element(tag), classes, attributes)


def write(tag: str, text: str, classes: str = "", **attributes: float | str) -> ui.element:
    """Add an element of SVG with a text, which may be a caller's in its visible form."""
    return _set(SvgText(tag, text), classes, attributes)


def tone(place: int) -> str:
    """Return the class of the colour of the series or category at this place, from 0 on."""
    return f"tone-{place}" if 0 <= place < TONES else "tone-rest"


def show_legend(entries: Iterable[tuple[str, str]], label: str) -> None:
    """Show what the colours stand for. `entries`: the class of a colour, and its name in visible form."""
    with ui.element("ul").classes("legend") as legend:
        for colour, name in entries:
            with ui.element("li"):
                ui.element("span").classes(f"swatch {colour}").props("aria-hidden=true")
                ui.label(name)
    legend.props["aria-label"] = label


def _set(element: ui.element, classes: str, attributes: dict[str, float | str]) -> ui.element:
    if classes:
        element.classes(classes)
    for name, value in attributes.items():
        element.props[name.replace("_", "-")] = value if isinstance(value, str) else f"{value:.6g}"
    return element
