"""Short states for screen readers: what loads, what is loaded, what is done. Never the content itself."""

from nicegui import ui

from console.texts import shorten_text

LONGEST_STATE = 120


class Announcer:
    """A place that a screen reader watches, and that nobody else sees. It is built before its first text comes."""

    def __init__(self) -> None:
        self._label = ui.label().classes("for-readers").props("role=status")

    def say(self, text: str) -> None:
        """Let screen readers say a short text, which may be a caller's. "": nothing."""
        if not self._label.is_deleted:
            self._label.set_text(shorten_text(text, LONGEST_STATE))
