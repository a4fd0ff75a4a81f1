"""Words of the API as marks and texts in plain English. The word itself is in the tooltip."""

from nicegui import ui

from console.texts import shorten_text
from console.words import LONGEST_WORD, Words, name_word


def show_mark(words: Words, raw: str) -> ui.label:
    """Show a word, such as a state, as a mark in its colour."""
    known = words.get(raw)
    return show_word(words, raw).classes(f"chip {known.mark if known else ''}").style("display: inline-block")


def show_word(words: Words, raw: str) -> ui.label:
    """Show a word as text."""
    label = ui.label(name_word(words, raw))
    label.props["title"] = shorten_text(raw, LONGEST_WORD)
    return label
