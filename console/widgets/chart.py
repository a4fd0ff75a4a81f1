"""A chart of stacked bars over time, with its numbers as a table for screen readers and for copying."""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

from nicegui import ui

from console.texts import shorten_text
from console.widgets.keyset import Table
from console.widgets.svg import TONES, draw, show_legend, tone, write

MOST_NAME = 30
DAY_LABELS = 5
LINES = 4
"""At most this many lines above the ground of the chart."""
SLOT, BAR, HEIGHT = 10, 8, 1000
"""Units of the picture, which the browser stretches: the width of a day and of its bar, and the whole height."""


def show_day_chart(
    days: Sequence[str], series: Mapping[str, Sequence[int]], *, label: str, rest: str | None = None
) -> None:
    """Show numbers by day as stacked bars.

    `days`: dates in ISO form. `series`: by name, one number a day. Names may be texts of callers. `rest`: the name of
    the series of all others, if there is one.
    """
    names = {name: shorten_text(name, MOST_NAME) for name in series}
    colours = {name: tone(TONES if name == rest else place) for place, name in enumerate(series)}
    sums = [sum(numbers) for numbers in zip(*series.values(), strict=True)] or [0] * len(days)
    lines = scale_lines(max(sums, default=0))
    with ui.element("div").classes("chart"):
        _show_numbers(lines)
        with draw("svg", "plot", viewBox=f"0 0 {SLOT * len(days)} {HEIGHT}", preserveAspectRatio="none") as picture:
            for line in lines:
                draw("path", "line", d=f"M0 {_height(line, lines)}H{SLOT * len(days)}")
            for name, path in bar_paths(series, lines[-1]).items():
                draw("path", f"series {colours[name]}", d=path)
            for place, day in enumerate(days):
                _show_tip(place, day, {names[name]: numbers[place] for name, numbers in series.items()})
        _show_days(days)
    picture.props["role"] = "img"
    picture.props["aria-label"] = _sum_up(label, days, sums)
    show_legend([(colours[name], f"{names[name]} {sum(numbers):,}") for name, numbers in series.items()], "Colours")
    with ui.expansion(f"{label} as a table").classes("wide"):
        table = Table(["Day", *names.values()], label)
        for place, day in enumerate(days):
            numbers = [values[place] for values in series.values()]
            table.add_row([partial(ui.label, day), *(_number_cell(number) for number in numbers)])


def scale_lines(largest: int) -> list[int]:
    """Return the numbers of the lines of a chart: 0 first, the last one at or above `largest`, in round steps."""
    steps = (factor * 10**power for power in range(30) for factor in (1, 2, 5))
    step = next(step for step in steps if step * LINES >= largest)
    return [step * place for place in range(max(1, -(-largest // step)) + 1)]


def bar_paths(series: Mapping[str, Sequence[int]], top: int) -> dict[str, str]:
    """Return the path of each series' bars; a day's bars stand on those of the series before. `top`: the full height.

    A series without a number above 0 has an empty path.
    """
    ground: dict[int, int] = {}
    paths: dict[str, str] = {}
    for name, numbers in series.items():
        parts: list[str] = []
        for place, number in enumerate(numbers):
            if number > 0:
                low = ground.get(place, 0)
                ground[place] = low + number
                below, above = (HEIGHT - HEIGHT * edge / top for edge in (low, low + number))
                left = SLOT * place + (SLOT - BAR) / 2
                parts.append(f"M{left:g} {below:.5g}V{above:.5g}h{BAR}V{below:.5g}z")
        paths[name] = "".join(parts)
    return paths


def _show_numbers(lines: Sequence[int]) -> None:
    """Show the numbers beside the lines: the steps are equal, so the browser spreads them."""
    with ui.element("div").classes("numbers").props("aria-hidden=true"):
        for line in lines:
            ui.label(f"{line:,}")


def _show_days(days: Sequence[str]) -> None:
    """Show a few of the days below the bars."""
    step = max(1, -(-len(days) // DAY_LABELS))
    with ui.element("div").classes("days").props("aria-hidden=true"):
        for place in range(step // 2, len(days), step):
            day = date.fromisoformat(days[place])
            ui.label(f"{day.day} {day:%b}").style(f"left: {(place + 0.5) / len(days):.2%}")


def _show_tip(place: int, day: str, numbers: Mapping[str, int]) -> None:
    """Add the tooltip of a day: a ground over the whole height, which also answers where bars are low."""
    told = [f"{name}: {number:,}" for name, number in numbers.items() if number]
    with draw("rect", "day", x=SLOT * place, y=0, width=SLOT, height=HEIGHT):
        write("title", "\n".join([day, *told]) if told else f"{day}: 0")


def _sum_up(label: str, days: Sequence[str], sums: Sequence[int]) -> str:
    if not days:
        return label
    most = max(range(len(days)), key=lambda place: sums[place])
    return (
        f"{label}: {sum(sums):,} from {days[0]} to {days[-1]}, most on {days[most]} with {sums[most]:,}. "
        "The numbers are in the table below."
    )


def _height(line: int, lines: Sequence[int]) -> float:
    return HEIGHT - HEIGHT * line / lines[-1]


def _number_cell(number: int) -> Any:
    return lambda: ui.label(f"{number:,}").classes("number")
