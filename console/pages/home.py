"""The first page: counts, recent changes and the health of the API."""

import asyncio

from mnema_client import overview
from mnema_wire.bases import Page
from mnema_wire.health import Health, Readiness
from mnema_wire.jobs import JobCounts
from mnema_wire.memory import Memory
from mnema_wire.overview import CategoryOverview
from mnema_wire.recall import Count
from nicegui import ui

from console.context import PageContext
from console.texts import shorten_text
from console.widgets.bars import show_bars
from console.widgets.section import Section
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_chips, show_link, show_time, show_user
from console.widgets.words import show_mark, show_word
from console.words import CHECKS, HEALTH, JOB_STATES, MEMORY_TYPES, OPERATIONS, name_word

RECENT = 10
MOST_CATEGORIES = 50
LONGEST_VERDICT = 400
NOT_CONFIGURED = "none:"
"""The beginning of the verdict on a part that nobody configured, which is no failure."""


def show(page: PageContext) -> None:
    """Show the page. Each part loads by itself."""
    Section(page, lambda: _fetch_health(page), _show_health, title="Health")
    if page.key.allows("query"):
        Section(page, lambda: _fetch_categories(page), _show_categories, title="Memories by category")
        Section(page, lambda: _fetch_recent(page), _show_recent, title="Recent changes")
        Section(page, lambda: page.memory.event_counts(["op"]), _show_operations, title="Operations so far")
    else:
        show_note("Your key may not read memories: it has no scope query.", "warning")
    if page.key.allows("admin"):
        Section(page, lambda: page.memory.job_counts(), _show_jobs, title="Background jobs")


async def _fetch_health(page: PageContext) -> tuple[Health, Readiness]:
    health, readiness = await asyncio.gather(page.memory.health(), page.memory.ready())
    return health, readiness


def _show_health(found: tuple[Health, Readiness]) -> None:
    health, readiness = found
    show_mark(HEALTH, readiness.status).style("align-self: flex-start")
    with ui.element("dl").classes("pairs"):
        for check, verdict in readiness.checks.items():
            if verdict != "ok" and not verdict.startswith(NOT_CONFIGURED):
                with ui.element("dt"):
                    show_word(CHECKS, check)
                _show_value(verdict)
        for name, value in [
            ("Version", health.version),
            ("Name of the embedding model", health.embedder),
            ("Name of the chat model", health.chat_model or "None is configured. Work that needs one is not done."),
        ]:
            with ui.element("dt"):
                ui.label(name)
            _show_value(value)


def _show_value(text: str) -> None:
    with ui.element("dd"):
        ui.label(shorten_text(text, LONGEST_VERDICT))


async def _fetch_categories(page: PageContext) -> Page[CategoryOverview]:
    return await page.memory.send(overview.category_page(limit=MOST_CATEGORIES))


def _show_categories(found: Page[CategoryOverview]) -> None:
    count = sum(category.memories for category in found.items)
    ui.label(f"{count:,} active {'memory' if count == 1 else 'memories'}")
    filled = {category.name: category.memories for category in found.items if category.memories}
    if filled:
        show_bars(filled, label="Active memories by category", digits=0)
    if found.next_cursor:
        show_note(f"These are the first {len(found.items):,} categories. There are more.")


async def _fetch_recent(page: PageContext) -> Page[Memory]:
    return await page.memory.page(sort="updated_at", order="desc", limit=RECENT)


def _show_recent(found: Page[Memory]) -> None:
    if not found.items:
        show_empty_state("No memories yet", "Write one: POST /memory, or mnema remember on the command line.")
        return
    with ui.element("ul").classes("stack plain"):
        for memory in found.items:
            with ui.element("li").classes("entry"):
                show_link(memory.text, f"/memories/{memory.id}")
                with ui.element("div").classes("row"):
                    show_chips([memory.category, name_word(MEMORY_TYPES, memory.type)])
                    show_user(memory.user_id)
                    show_time(memory.updated_at)


def _show_operations(counts: list[Count]) -> None:
    if not counts:
        show_empty_state("No events yet", "They appear as soon as an agent writes or asks.")
        return
    named = {name_word(OPERATIONS, str(count.group["op"])): count.count for count in counts}
    show_bars(named, label="Events by operation", digits=0)


def _show_jobs(counts: JobCounts) -> None:
    by_state: dict[str, int] = {}
    for count in counts.counts:
        by_state[count.state] = by_state.get(count.state, 0) + count.count
    if dead := by_state.get("dead"):
        show_note(f"{dead} jobs failed for good. The page Jobs says why and replays them.", "warning")
        show_link("Open the jobs", "/jobs", state="dead")
    if not by_state:
        show_empty_state("No jobs yet", "Turns, sources and reflection create them.")
        return
    named = {name_word(JOB_STATES, state): count for state, count in by_state.items()}
    show_bars(named, label="Jobs by state", digits=0)
