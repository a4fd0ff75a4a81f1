"""Usage by day and by user: queries, tokens of answers, writes and tokens of the chat model. It needs scope admin."""

from datetime import UTC, date, timedelta

from mnema_client import receipts
from mnema_wire.bases import Page
from mnema_wire.receipts import Usage
from nicegui import ui

from console.context import PageContext
from console.session import read_clock
from console.widgets.chart import show_day_chart
from console.widgets.keyset import KeysetList
from console.widgets.section import Section, heading
from console.widgets.states import show_empty_state
from console.widgets.text import show_line, show_user

PAGE_ITEMS = 25
DAYS = 30


def show_usage(page: PageContext) -> None:
    """Show usage by day as a chart and numbers, and by user as a list."""
    Section(page, lambda: _fetch_days(page), _show_days, title=f"Usage in {DAYS} days")
    with ui.element("section").classes("section").props('aria-label="Usage by user"'):
        heading("Usage by user")
        KeysetList(
            page,
            lambda cursor: _fetch_users(page, cursor),
            {
                "User": _show_user,
                "Queries": lambda used: _show_number(used.queries),
                "Tokens answered": lambda used: _show_number(used.tokens),
                "Writes": lambda used: _show_number(used.writes),
            },
            label="Usage by user",
            empty=("No usage in this period", "Queries and writes of agents count here."),
        )


async def _fetch_days(page: PageContext) -> list[Usage]:
    call = receipts.usage("day", since=_list_days()[0], limit=DAYS + 1)
    return (await page.memory.send(call)).items


async def _fetch_users(page: PageContext, cursor: str | None) -> Page[Usage]:
    return await page.memory.send(receipts.usage("user", since=_list_days()[0], limit=PAGE_ITEMS, cursor=cursor))


def _list_days() -> list[date]:
    """Return the days of the period, the oldest first."""
    today = read_clock().astimezone(UTC).date()
    return [today - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]


def _show_days(found: list[Usage]) -> None:
    if not found:
        show_empty_state("No usage in this period", "Queries and writes of agents count here.")
        return
    with ui.element("div").classes("tiles"):
        for name, number in {
            "queries": sum(used.queries for used in found),
            "tokens answered": sum(used.tokens for used in found),
            "writes": sum(used.writes for used in found),
            "model tokens": sum(used.model_tokens or 0 for used in found),
        }.items():
            with ui.element("div").classes("tile"):
                ui.label(f"{number:,}").classes("number")
                ui.label(name).classes("soft")
    by_day = {used.day: used for used in found}
    days = _list_days()
    used_days = [by_day.get(day) for day in days]
    series = {
        "queries": [used.queries if used else 0 for used in used_days],
        "writes": [used.writes if used else 0 for used in used_days],
    }
    show_day_chart([day.isoformat() for day in days], series, label="Queries and writes by day")


def _show_user(used: Usage) -> None:
    if used.user_id is None:
        show_line("no user")
    else:
        show_user(used.user_id)


def _show_number(number: int) -> None:
    ui.label(f"{number:,}").classes("number")
