"""A chart of stacked bars over time, with its numbers as a table for screen readers and for copying."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nicegui import ui

from console.texts import shorten_text
from console.widgets.keyset import Table

COLOURS = ["#2b66b8", "#c2571a", "#2f8a4e", "#8a4fb0", "#a8861a", "#b83260", "#1f8a92", "#6b7785"]
"""Colours that stand out on the light ground and on the dark one."""
INK = "#7b8794"
MOST_NAME = 30


def show_day_chart(days: Sequence[str], series: Mapping[str, Sequence[int]], *, label: str) -> None:
    """Show numbers by day as stacked bars. `series`: by name, one number a day. Names may be texts of callers."""
    chart = ui.echart(_build_options(days, series), renderer="svg").classes("chart")
    chart.props["role"], chart.props["aria-label"] = "img", f"{label}. The numbers are in the table below."
    with ui.expansion(f"{label} as a table").classes("wide"):
        table = Table(["Day", *(shorten_text(name, MOST_NAME) for name in series)], label)
        for place, day in enumerate(days):
            numbers = [values[place] for values in series.values()]
            table.add_row([partial(ui.label, day), *(_number_cell(number) for number in numbers)])


def _number_cell(number: int) -> Any:
    return lambda: ui.label(f"{number:,}").classes("number")


def _build_options(days: Sequence[str], series: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return ECharts' options. Names of callers are values only: NiceGUI evaluates keys that begin with a colon."""
    return {
        "color": COLOURS,
        "backgroundColor": "transparent",
        "animation": False,
        "textStyle": {"color": INK},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "legend": {"type": "scroll", "bottom": 0, "textStyle": {"color": INK}},
        "grid": {"left": 8, "right": 8, "top": 12, "bottom": 36, "containLabel": True},
        "xAxis": {"type": "category", "data": list(days), "axisLabel": {"color": INK, "hideOverlap": True}},
        "yAxis": {
            "type": "value",
            "minInterval": 1,
            "axisLabel": {"color": INK},
            "splitLine": {"lineStyle": {"color": INK, "opacity": 0.25}},
        },
        "series": [
            {"name": shorten_text(name, MOST_NAME), "type": "bar", "stack": "all", "data": list(values)}
            for name, values in series.items()
        ],
    }
