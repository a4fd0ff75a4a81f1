"""A form of text filters. Its values are in the page's address, so that a search can be linked to."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nicegui import ui

from console.context import PageContext, page_address
from console.session import COOKIE_PATH

LONGEST_FILTER = 1000


class FilterForm:
    """Text filters with a button. `labels`: by the name of the parameter; the first one is the page's search field.

    `search`: loads again; it reads `values`. `build_more`: builds further fields beside them.
    """

    def __init__(
        self,
        page: PageContext,
        labels: Mapping[str, str],
        search: Callable[[], Awaitable[None]],
        *,
        action: str = "Search",
        build_more: Callable[[], object] | None = None,
    ) -> None:
        self._page = page
        self._search = search
        self._values = {name: page.params.get(name, "")[:LONGEST_FILTER] for name in labels}
        with ui.element("div").classes("filters"):
            for place, (name, label) in enumerate(labels.items()):
                field = self._add_field(name, label)
                if place == 0:
                    field.props("data-search")
            if build_more is not None:
                build_more()
        with ui.element("div").classes("row"):
            ui.button(action, on_click=self.submit)

    @property
    def values(self) -> dict[str, str]:
        """The filters that are not empty, without blanks around them."""
        return {name: value.strip() for name, value in self._values.items() if value.strip()}

    def _add_field(self, name: str, label: str) -> ui.input:
        def keep_value(event: Any) -> None:
            self._values[name] = (event.value or "")[:LONGEST_FILTER]

        field = ui.input(label, value=self._values[name], on_change=keep_value)
        field.on("keydown.enter", self.submit).props("dense outlined clearable autocomplete=off")
        return field.mark(f"filter-{name}")

    async def submit(self) -> None:
        """Put the values into the address and load again."""
        ui.navigate.history.replace(COOKIE_PATH + page_address(self._page.path, **self.values))
        await self._search()
