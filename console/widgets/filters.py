"""A form of filters. Its values are in the page's address, so that a search can be linked to."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from console.context import PageContext, page_address
from console.session import COOKIE_PATH
from console.widgets.keyset import EmptyState
from console.widgets.moments import MomentField

LONGEST_FILTER = 1000


@dataclass(frozen=True)
class Choice:
    """A filter with fixed values. `options`: the words of each value. An unknown value is `default`.

    `narrows`: False for what leaves no entry out, such as an order.
    """

    label: str
    options: Mapping[str, str]
    default: str = ""
    narrows: bool = True


@dataclass(frozen=True)
class Day:
    """A filter with a day such as `2027-01-31`."""

    label: str


@dataclass(frozen=True)
class Moment:
    """A filter with a time, chosen by a slider over the records of the user that another filter names."""

    label: str
    user: str = "user_id"


Filter = str | Choice | Day | Moment
"""A filter; a str is the label of a text."""


class FilterForm:
    """Filters with a button. `filters`: by the name of the parameter; the first one is the page's search field.

    `search`: loads again; it reads `values`. `more`: filters in a part that is open if one of them is set.
    """

    def __init__(
        self,
        page: PageContext,
        filters: Mapping[str, Filter],
        search: Callable[[], Awaitable[None]],
        *,
        action: str = "Search",
        more: Mapping[str, Filter] | None = None,
    ) -> None:
        self._page = page
        self._search = search
        self._filters = {**filters, **(more or {})}
        self._values = {name: _read_value(page, name, entry) for name, entry in self._filters.items()}
        self._fields: dict[str, ui.input | ui.select] = {}
        with ui.element("div").classes("filters"):
            for place, (name, entry) in enumerate(filters.items()):
                field = self._add_field(name, entry)
                if place == 0:
                    field.props("data-search")
        if more:
            is_open = not self.chosen.keys().isdisjoint(more)
            further = ui.expansion("More filters and order", value=is_open).classes("wide")
            with further, ui.element("div").classes("filters"):
                for name, entry in more.items():
                    self._add_field(name, entry)
        with ui.element("div").classes("row"):
            ui.button(action, on_click=self.submit)
            ui.button("Clear", on_click=self.clear).props("outline")

    @property
    def values(self) -> dict[str, str]:
        """The filters that are not empty, without blanks around them."""
        return {name: value.strip() for name, value in self._values.items() if value.strip()}

    @property
    def chosen(self) -> dict[str, str]:
        """The values that are not the default ones."""
        return {name: value for name, value in self.values.items() if value != _default(self._filters[name])}

    def explain_empty(self, title: str, hint: str) -> Callable[[], EmptyState]:
        """Return what a list shows without entries: that nothing matches or, without filters, these words."""

        def explain() -> EmptyState:
            if any(not isinstance(entry := self._filters[name], Choice) or entry.narrows for name in self.chosen):
                return EmptyState("Nothing matches", "Clear the filters to see all.", "Clear the filters", self.clear)
            return EmptyState(title, hint)

        return explain

    async def submit(self) -> None:
        """Put the values into the address and load again."""
        ui.navigate.history.replace(COOKIE_PATH + page_address(self._page.path, **self.chosen))
        await self._search()

    async def clear(self) -> None:
        """Set all filters to their defaults and load again."""
        for name, field in self._fields.items():
            field.set_value(_default(self._filters[name]))
        await self.submit()

    def _add_field(self, name: str, entry: Filter) -> ui.input | ui.select:
        def keep_value(event: Any) -> None:
            self._values[name] = (event.value or "")[:LONGEST_FILTER]

        value = self._values[name]
        field: ui.input | ui.select
        if isinstance(entry, Moment):
            moment = MomentField(self._page, entry.label, lambda: self._values.get(entry.user, ""), value=value)
            field = moment.field.on_value_change(keep_value)
        elif isinstance(entry, Choice):
            field = ui.select(dict(entry.options), label=entry.label, value=value, on_change=keep_value)
            field.props("options-dense")
        else:
            label = entry.label if isinstance(entry, Day) else entry
            field = ui.input(label, value=value, on_change=keep_value)
            field.on("keydown.enter", self.submit).props("autocomplete=off")
            field.props("type=date stack-label" if isinstance(entry, Day) else "clearable")
        self._fields[name] = field
        return field.props("dense outlined").mark(f"filter-{name}")


def _default(entry: Filter) -> str:
    return entry.default if isinstance(entry, Choice) else ""


def _read_value(page: PageContext, name: str, entry: Filter) -> str:
    given = page.params.get(name, "")[:LONGEST_FILTER]
    if isinstance(entry, Choice):
        return given if given in entry.options else entry.default
    return given
