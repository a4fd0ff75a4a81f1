"""Progress of long work. The page stays usable meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

from nicegui import ui


class Progress:
    """The shown progress of one piece of work."""

    def __init__(self, label: str) -> None:
        with ui.element("div").classes("progress").props("role=status") as self.element:
            self._label = ui.label(label)
            self._bar = ui.linear_progress(value=0, show_value=False).props("indeterminate")
            self._bar.props["aria-label"] = label

    def show_step(self, text: str, share: float | None = None) -> None:
        """Show what is being done. `share`: the part that is done, 0 to 1, if it is known."""
        self._label.set_text(text)
        if share is not None:
            self._bar.props(remove="indeterminate")
            self._bar.set_value(max(0.0, min(1.0, share)))


@contextmanager
def show_progress(label: str) -> Iterator[Progress]:
    """Show progress in the current place until the block ends: `with show_progress("Exporting…") as progress:`."""
    progress = Progress(label)
    try:
        yield progress
    finally:
        if not progress.element.is_deleted:
            progress.element.delete()
