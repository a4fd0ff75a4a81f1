"""A listener that keeps what it hears of a streamed answer."""

import asyncio

HEARD_S = 60
"""The seconds in which a change is told. Each older transaction of the server, also of another test, holds it up."""


class Heard:
    """The pieces of the answer since it began again, and the reasons why it did. `began` is set by the first piece."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.again: list[str] = []
        self.began = asyncio.Event()

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self.pieces)

    def add_text(self, piece: str) -> None:
        """Keep the piece."""
        self.pieces.append(piece)
        self.began.set()

    def begin_again(self, reason: str) -> None:
        """Keep the reason and drop the text."""
        self.pieces.clear()
        self.again.append(reason)
