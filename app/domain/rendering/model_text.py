"""The type of a text that a model may read."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelText:
    """A text that a model may read: each mark of our formats in it is ours.

    Only the functions of this package make one, from raw texts, each of which they defuse once. `text` is what a face
    sends.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def lines(self) -> tuple["ModelText", ...]:
        """The lines of the text."""
        return tuple(map(ModelText, self.text.split("\n"))) if self.text else ()


NOTHING = ModelText("")


def join_lines(texts: Iterable[ModelText]) -> ModelText:
    """Return the texts below one another; empty ones are left out."""
    return ModelText("\n".join(text.text for text in texts if text.text))


def join_blocks(texts: Iterable[ModelText]) -> ModelText:
    """Return the texts with a blank line between them."""
    return ModelText("\n\n".join(text.text for text in texts))
