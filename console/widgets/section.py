"""A part of a page that loads by itself, after the page has been sent."""

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from mnema_client import MnemaError
from nicegui import background_tasks, ui

from console.context import PageContext
from console.widgets.announce import Announcer
from console.widgets.states import show_error, show_loading

log = logging.getLogger("console")
T = TypeVar("T")


class Section(Generic[T]):
    """A part that fetches data and then builds its elements from it; an error is shown in its place.

    Screen readers say that it loads and that it is loaded. A person who wants its content goes there.

    `fetch`: calls the API. `build`: builds the elements; it is called inside the part. `title`: a heading, if any.
    """

    def __init__(
        self,
        page: PageContext,
        fetch: Callable[[], Awaitable[T]],
        build: Callable[[T], None],
        *,
        title: str = "",
        at_once: bool = True,
    ) -> None:
        self._page = page
        self._fetch = fetch
        self._build = build
        self._turn = 0
        self._name = title or "This part"
        with ui.element("section").classes("section") as self.element:
            if title:
                heading(title)
            self._state = Announcer()
            self._box = ui.element("div").classes("stack")
        if title:
            self.element.props["aria-label"] = title
        if at_once:
            background_tasks.create(self.refresh(), name=f"load {title or page.path}")

    async def refresh(self) -> None:
        """Fetch and build again. If a later call overtakes this one, this one shows nothing."""
        self._turn += 1
        turn = self._turn
        self._rebuild(show_loading, f"{self._name}: loading")
        try:
            data = await self._fetch()
            if turn == self._turn:
                self._rebuild(lambda: self._build(data), f"{self._name}: loaded")
        except Exception as error:  # of the API or a fault: the part never stays at "Loading…"
            if not self._page.ends_session(error) and turn == self._turn:
                log_fault(error)
                failure = error
                self._rebuild(lambda: show_error(failure, self.refresh), "")  # an error is an alert itself

    def _rebuild(self, build: Callable[[], None], state: str) -> None:
        if self._page.client.is_deleted or self._box.is_deleted:
            return
        self._box.clear()
        with self._box:
            build()
        self._state.say(state)


def log_fault(error: Exception) -> None:
    """Log an error that is not the API's answer. A part of a page shows its kind alone."""
    if not isinstance(error, MnemaError):
        log.error("a part of a page failed", exc_info=error)


def heading(text: str, level: int = 2) -> ui.element:
    """Show a heading. The page's own title is level 1."""
    with ui.element(f"h{level}") as element:
        ui.label(text)
    return element
