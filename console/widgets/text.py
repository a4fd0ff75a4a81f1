"""Texts of callers, identifiers, times and small marks. All of them are shown as text, never as HTML or Markdown."""

from collections.abc import Iterable
from datetime import UTC, datetime

from nicegui import ui

from console.context import page_address
from console.differences import Piece
from console.session import COOKIE_PATH, read_clock
from console.texts import reveal_part, reveal_text, shorten_text
from console.times import format_distance, format_time
from console.widgets.long_text import SHORT_BYTES, LongText
from console.words import explain_user


def show_text(text: str, classes: str = "", room: int = SHORT_BYTES) -> ui.element:
    """Show a caller's text with its line breaks and with invisible characters made visible. Return its element.

    A text that takes more than `room` bytes is shortened; a button shows the rest.
    """
    shown, end = reveal_part(text, 0, room)
    if end == len(text):
        return ui.label(shown).classes(f"text {classes}")
    return LongText([Piece("same", shown + "…")], [Piece("same", text)], f"text {classes}").element


def show_line(text: str, limit: int = 160) -> ui.label:
    """Show the beginning of a caller's text on one line."""
    return ui.label(shorten_text(text, limit)).classes("text")


def show_id(identifier: object) -> ui.label:
    """Show an identifier in the font of code."""
    return ui.label(reveal_text(str(identifier), 200)).classes("code")


def show_chips(words: Iterable[str]) -> None:
    """Show words as small marks, such as tags."""
    with ui.element("div").classes("chips"):
        for word in words:
            ui.label(shorten_text(word, 60)).classes("chip")


def show_time(moment: datetime | None) -> ui.element:
    """Show the distance of a time from now, with the exact time in UTC in its tooltip; "never" for None."""
    with ui.element("time").classes("time") as element:
        ui.label(format_distance(moment, read_clock()))
    if moment is not None:
        element.props["datetime"] = moment.astimezone(UTC).isoformat()
        element.props["title"] = format_time(moment)
    return element


def show_user(user_id: str) -> None:
    """Show a user as a link to the person's page. Users that are no person say so."""
    show_link(user_id, "/people", user_id=user_id)
    if kind := explain_user(user_id):
        ui.label(kind).classes("chip").style("display: inline-block")


def show_link(label: str, path: str, **params: str | None) -> ui.element:
    """Show a link to a page of the console. `label` may be a caller's text."""
    with ui.element("a").classes("link") as element:
        ui.label(shorten_text(label, 200))
    element.props["href"] = COOKIE_PATH + page_address(path, **params)
    return element
