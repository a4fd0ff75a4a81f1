"""A field for a text whose characters are counted while a person types."""

from nicegui import ui

LONGEST_TEXTS = {
    "semantic": 280,
    "episodic": 280,
    "insight": 280,
    "procedural": 8_000,
    "summary": 8_000,
    "chunk": 8_000,
    "turn": 32_000,
}
"""Characters of the longest text of each type, as the server has them unless its operator chose others."""
MOST_TAGS = 50
LONGEST_NAME = 200
"""Characters of a name, such as a tag, a category, a user or a thread."""


class CountedText:
    """A field that grows, with the count of its characters below. A longer text stays as it is; the API refuses it."""

    def __init__(self, label: str, limit: int, value: str = "") -> None:
        self._limit = limit
        with ui.element("div").classes("wide") as self._box:
            self.field = ui.textarea(label, value=value, on_change=self._count).classes("wide")
            self.field.props("outlined autogrow")
            self._label = ui.label().classes("count soft").props("aria-live=polite")
        self._count()

    @property
    def value(self) -> str:
        """The text."""
        return self.field.value or ""

    def set_limit(self, limit: int) -> None:
        """Change the limit, such as after the choice of another type."""
        self._limit = limit
        self._count()

    def set_visibility(self, visible: bool) -> None:
        """Show or hide the field."""
        self._box.set_visibility(visible)

    def set_value(self, value: str) -> None:
        """Change the text."""
        self.field.set_value(value)

    def _count(self) -> None:
        length = len(self.value)
        is_long = length > self._limit
        self._label.set_text(f"{length:,} of {self._limit:,} characters" + (": too long" if is_long else ""))
        self._label.classes(add="bad-text" if is_long else "soft", remove="soft" if is_long else "bad-text")


def read_tags(text: str) -> list[str]:
    """Return the tags of a field that has one on each line."""
    return [tag.strip() for tag in text.split("\n", MOST_TAGS) if tag.strip()]
