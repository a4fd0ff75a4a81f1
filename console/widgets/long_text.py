"""Texts of any length. A long one is shown shortened, with a button for the rest, so that each message stays small."""

from collections.abc import Iterator, Sequence

from nicegui import ui

from console.differences import Kind, Piece
from console.texts import count_bytes, reveal_part

TAGS: dict[Kind, str] = {"removed": "del", "added": "ins"}
SHORT_BYTES = 2_000
"""Bytes of a shortened text in a message."""
STEP_BYTES = 100_000
"""Bytes of a text that one press of the button adds. A message has at most 200 KB."""
PIECE_BYTES = 130
"""Bytes of a piece's elements in a message, without its text."""

Step = list[Piece]


def split_steps(pieces: Sequence[Piece], room: int) -> Iterator[Step]:
    """Yield the pieces, made visible, in steps of at most `room` bytes of a message. A long piece is divided."""
    step: Step = []
    left = room
    for kind, text in pieces:
        end = 0
        while end < len(text):
            shown, end = reveal_part(text, end, left - PIECE_BYTES)
            if shown:
                step.append(Piece(kind, shown))
                left -= PIECE_BYTES + count_bytes(shown)
            if end < len(text):
                yield step
                step = []
                left = room
    yield step


class LongText:
    """A text of which a part is shown, and the button that shows the rest.

    `excerpt`: what is shown at first, made visible. `pieces`: the whole. `classes`: of the text's element.
    """

    def __init__(self, excerpt: Step, pieces: Sequence[Piece], classes: str) -> None:
        self._excerpt = excerpt
        self._pieces = pieces
        self._later: Step | None = None
        self._steps: Iterator[Step] | None = None
        self.element = ui.element("div").classes(classes)
        add_pieces(self.element, excerpt)
        self._button = ui.button("Show all", on_click=self._go_on).props("flat dense aria-expanded=false")
        self._button.classes("more").props["aria-label"] = "Show all of this text"

    def _go_on(self) -> None:
        """Show the next step; after the last one, the beginning again."""
        if self._steps is None:
            self.element.clear()
            self._steps = split_steps(self._pieces, STEP_BYTES)
            self._later = next(self._steps, None)
        elif self._later is None:
            self._close()
            return
        add_pieces(self.element, self._later or [])
        self._later = next(self._steps, None)
        self._name_button("Show less" if self._later is None else "Show more", "true")

    def _close(self) -> None:
        self.element.clear()
        self._steps = None
        add_pieces(self.element, self._excerpt)
        self._name_button("Show all", "false")

    def _name_button(self, name: str, expanded: str) -> None:
        self._button.set_text(name)
        self._button.props["aria-label"] = f"{name} of this text"
        self._button.props["aria-expanded"] = expanded


def add_pieces(element: ui.element, pieces: Sequence[Piece]) -> None:
    """Add pieces to the element, in their order."""
    with element:
        for kind, text in pieces:
            if kind == "same":
                ui.label(text).classes("inline")
            else:
                with ui.element(TAGS[kind]):
                    ui.label(text).classes("inline")
