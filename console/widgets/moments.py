"""A choice of a time: a field with the exact time in UTC, and a slider from a user's first record until now."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from nicegui import ui

from console.context import PageContext

ALMOST_A_SECOND = timedelta(microseconds=999_999)
STEPS = 200
"""The places of the slider; the last one is now."""


class MomentField:
    """A field and its slider. Empty stands for now.

    `find_user`: returns the name of the user whose records the slider spans, "" if none is named yet.
    """

    def __init__(self, page: PageContext, label: str, find_user: Callable[[], str], *, value: str = "") -> None:
        self._page = page
        self._find_user = find_user
        self._first: tuple[str, datetime] | None = None
        with ui.element("div").classes("moment"):
            self.field = ui.input(f"{label} (UTC)", value=value)
            self.field.props("type=datetime-local step=1 stack-label dense outlined clearable autocomplete=off")
            self.slider = ui.element("input").props(f"type=range min=0 max={STEPS} value={STEPS}")
            self.slider.props["aria-label"] = f"{label}: from the user's first record until now"
            self.slider.on("change", self._move, js_handler="(event) => emit(event.target.value)")

    @property
    def value(self) -> str:
        """The time as ISO 8601 without a zone, "" for now."""
        return (self.field.value or "").strip()

    async def _move(self, event: Any) -> None:
        """Put the time of the slider's place into the field."""
        place = min(int(event.args), STEPS) if str(event.args).isdecimal() else STEPS
        self._show_place(place)
        if place == STEPS:
            self.field.set_value("")
            return
        first = await self._page.attempt(self._read_first(self._find_user().strip()))
        if first is None:
            ui.notify("Name a user who has memories: the slider begins at the first one.", type="warning")
            self._show_place(STEPS)
            return
        chosen = first + (datetime.now(UTC) - first) * place / STEPS
        self.field.set_value(f"{chosen + ALMOST_A_SECOND:%Y-%m-%dT%H:%M:%S}")  # rounded up: the first record counts

    def _show_place(self, place: int) -> None:
        self.slider.props["value"] = place
        self.slider.update()

    async def _read_first(self, user_id: str) -> datetime | None:
        """Return the time of a user's first active memory, None without one."""
        if not user_id:
            return None
        if self._first is None or self._first[0] != user_id:
            page = await self._page.memory.page(user_id=user_id, sort="created_at", order="asc", limit=1)
            if not page.items:
                return None
            self._first = user_id, page.items[0].created_at
        return self._first[1]
