"""Numbers as bars: the parts of a score, and counts."""

from collections.abc import Mapping

from nicegui import ui

from console.texts import shorten_text


def show_bars(values: Mapping[str, float], *, label: str, digits: int = 3) -> None:
    """Show named numbers as bars, each as long as its share of the largest. The number stands beside its bar."""
    largest = max((abs(value) for value in values.values()), default=0.0) or 1.0
    with ui.element("dl").classes("bars") as bars:
        for name, value in values.items():
            with ui.element("dt"):
                ui.label(shorten_text(name, 40))
            with ui.element("dd"):
                track = ui.element("div").classes("bar-track").props("aria-hidden=true")
                with track:
                    width = min(100.0, max(0.0, abs(value) / largest * 100))
                    ui.element("div").classes("bar" if value >= 0 else "bar below").style(f"width: {width:.1f}%")
                ui.label(f"{value:.{digits}f}" if digits else f"{value:,.0f}").classes("number")
    bars.props["aria-label"] = label
