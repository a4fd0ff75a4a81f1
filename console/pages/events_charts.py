"""Charts of events by day: what was done, and how it ended."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

from mnema_wire.recall import Count
from nicegui import ui

from console.context import PageContext
from console.session import read_clock
from console.widgets.chart import show_day_chart
from console.widgets.section import Section
from console.widgets.states import show_empty_state
from console.words import OPERATIONS, OUTCOMES, PARTS, Words, name_word

PERIODS = {7: "7 days", 30: "30 days", 90: "90 days"}
GROUPS = {"op": "Operation", "node": "Part", "status": "Outcome", "category": "Category"}
MOST_SERIES = 7
WORDS: dict[str, Words] = {"op": OPERATIONS, "node": PARTS, "status": OUTCOMES}
OTHERS = "others"
NONE = "none"


def show_charts(page: PageContext) -> None:
    """Show the chart with its choices."""
    EventCharts(page)


class EventCharts:
    """The chart of events by day, grouped as the person chooses."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        self._days = 30
        self._group = "op"
        with ui.element("div").classes("filters"):
            ui.select(PERIODS, label="Period", value=self._days, on_change=self._choose_days).props(
                "dense outlined options-dense"
            ).mark("chart-days")
            ui.select(GROUPS, label="Grouped by", value=self._group, on_change=self._choose_group).props(
                "dense outlined options-dense"
            ).mark("chart-group")
        self._section = Section(page, self._fetch, self._show, title="Events by day")

    async def _choose_days(self, event: Any) -> None:
        self._days = event.value
        await self._section.refresh()

    async def _choose_group(self, event: Any) -> None:
        self._group = event.value
        await self._section.refresh()

    async def _fetch(self) -> list[Count]:
        first = read_clock().astimezone(UTC).date() - timedelta(days=self._days - 1)
        since = datetime.combine(first, time(), UTC)
        return await self._page.memory.event_counts(["day", self._group], since=since)

    def _show(self, counts: list[Count]) -> None:
        if not counts:
            show_empty_state("No events in this period", "They appear as soon as an agent writes or asks.")
            return
        today = read_clock().astimezone(UTC).date()
        days = [(today - timedelta(days=back)).isoformat() for back in range(self._days - 1, -1, -1)]
        total = sum(count.count for count in counts)
        ui.label(f"{total:,} events in {PERIODS[self._days]}").classes("soft")
        series = _series(counts, self._group, days)
        show_day_chart(days, series, label="Events by day", rest=OTHERS if len(series) > MOST_SERIES else None)


def _series(counts: Sequence[Count], group: str, days: Sequence[str]) -> dict[str, list[int]]:
    """Return one number a day for each of the largest groups, and for all others together."""
    totals: Counter[str] = Counter()
    for count in counts:
        totals[_name_group(count, group)] += count.count
    named = [name for name, _count in totals.most_common(MOST_SERIES)]
    places = {day: place for place, day in enumerate(days)}
    series = {name: [0] * len(days) for name in [*named, *([OTHERS] if len(totals) > MOST_SERIES else [])]}
    for count in counts:
        name = _name_group(count, group)
        place = places.get(str(count.group["day"]))
        if place is not None:  # a later day may have begun
            series[name if name in series else OTHERS][place] += count.count
    return series


def _name_group(count: Count, group: str) -> str:
    """Return the plain name of a group; a category keeps its own, which is the tenant's."""
    raw = str(count.group[group] or NONE)
    return name_word(WORDS[group], raw) if group in WORDS else raw
