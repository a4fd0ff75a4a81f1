"""The words that a change removed and added."""

from collections.abc import Sequence

from nicegui import ui

from console.differences import Piece, compare_words, shorten_pieces
from console.widgets.long_text import SHORT_BYTES, LongText, add_pieces, split_steps

CLASSES = "text difference"


def show_differences(old: str, new: str) -> None:
    """Show the new text with removed words struck out and added words underlined. Many: compare them in a thread."""
    show_pieces(compare_words(old, new))


def show_pieces(pieces: Sequence[Piece]) -> None:
    """Show the pieces of `compare_words`. Of long ones, show the changed places and a button for the whole."""
    steps = split_steps(pieces, SHORT_BYTES)
    whole = next(steps)
    if next(steps, None) is None:
        add_pieces(ui.element("div").classes(CLASSES), whole)
        return
    shortened = split_steps(shorten_pieces(pieces), SHORT_BYTES)
    excerpt = next(shortened)
    if next(shortened, None) is not None:
        excerpt = [*excerpt, Piece("same", " …")]
    LongText(excerpt, pieces, CLASSES)
