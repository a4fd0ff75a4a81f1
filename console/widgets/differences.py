"""The words that a change removed and added."""

from collections.abc import Sequence

from nicegui import ui

from console.differences import Kind, Piece, compare_words
from console.texts import reveal_text

TAGS: dict[Kind, str] = {"same": "span", "removed": "del", "added": "ins"}


def show_differences(old: str, new: str) -> None:
    """Show the new text with removed words struck out and added words underlined. Many: compare them in a thread."""
    show_pieces(compare_words(old, new))


def show_pieces(pieces: Sequence[Piece]) -> None:
    """Show the pieces of `compare_words`."""
    with ui.element("div").classes("text difference"):
        for piece in pieces:
            element = ui.element(TAGS[piece.kind])
            with element:
                ui.label(reveal_text(piece.text)).classes("inline")
