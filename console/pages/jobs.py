"""The page Jobs: counts, failed jobs with their errors, replays and pauses. It needs scope admin."""

import json
from functools import partial
from typing import Any, cast

from mnema_client.requests import JobState
from mnema_wire.bases import Page
from mnema_wire.jobs import Job, JobCounts, JobDetail
from nicegui import ui

from console.context import PageContext, page_address
from console.session import COOKIE_PATH
from console.texts import shorten_text
from console.times import format_time
from console.widgets.keyset import KeysetList, Table
from console.widgets.pairs import show_pairs
from console.widgets.section import Section, heading
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_id, show_line, show_link, show_text, show_time
from console.widgets.words import show_mark, show_word
from console.words import JOB_KINDS, JOB_STATES, name_word

PAGE_ITEMS = 25
STATES = {"": "All", **{state: name_word(JOB_STATES, state) for state in ("dead", "queued", "running", "done")}}
ALL_KINDS = "*"
PAUSES_ALL = "all kinds"


def show(page: PageContext) -> None:
    """Show the page, or one job if the address names it."""
    if not page.key.allows("admin"):
        show_note("Your key may not see jobs: it has no scope admin.", "warning")
    elif job_id := page.params.get("job_id", "")[:100]:
        JobView(page, job_id)
    else:
        JobsView(page)


class JobsView:
    """The counts with the pauses, and the list."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        state = page.params.get("state", "")
        self._state = state if state in STATES else ""
        self._kind = page.params.get("kind", "")[:100]
        self._counts = Section(page, lambda: page.memory.job_counts(), self._show_counts, title="By kind")
        with ui.element("section").classes("section").props("aria-label=Jobs"):
            heading("Newest first")
            with ui.element("div").classes("filters"):
                ui.select(STATES, label="State", value=self._state, on_change=self._choose_state).props(
                    "dense outlined options-dense data-search"
                ).mark("filter-state")
            if self._kind:
                with ui.element("div").classes("row"):
                    show_line(f"Only: {name_word(JOB_KINDS, self._kind)}.", 200)
                    show_link("Show all kinds", "/jobs", state=self._state or None)
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Kind": self._show_kind,
                    "State": lambda job: show_mark(JOB_STATES, job.state),
                    "Attempts": lambda job: ui.label(str(job.attempts)).classes("number"),
                    "User": lambda job: show_line(job.user_id or "", 60),
                    "Error": lambda job: show_line(job.last_error or "", 200),
                    "Changed": lambda job: show_time(job.updated_at),
                    "Action": self._show_action,
                },
                label="Jobs",
                empty=("No jobs here", "Turns, sources and reflection create them. Choose another state to see more."),
            )

    async def _fetch(self, cursor: str | None) -> Page[Job]:
        state = cast(JobState, self._state) if self._state else None
        return await self._page.memory.job_page(state=state, kind=self._kind or None, limit=PAGE_ITEMS, cursor=cursor)

    async def _choose_state(self, event: Any) -> None:
        self._state = event.value
        address = page_address("/jobs", state=self._state or None, kind=self._kind or None)
        ui.navigate.history.replace(COOKIE_PATH + address)
        await self._list.refresh()

    def _show_counts(self, counts: JobCounts) -> None:
        by_kind: dict[str, dict[str, int]] = {}
        for count in counts.counts:
            by_kind.setdefault(count.kind, {})[count.state] = count.count
        if counts.oldest_due_s is not None:
            show_note(f"The oldest due job has waited {counts.oldest_due_s:,.0f} s.")
        if ALL_KINDS in counts.paused:
            show_note("All jobs are paused: due jobs wait until you resume them.", "warning")
        if not by_kind and not counts.paused:
            show_empty_state("No jobs yet", "Turns, sources and reflection create them.")
        else:
            self._show_kinds(by_kind, counts.paused)
        with ui.element("div").classes("row end"):
            if counts.paused:
                ui.button("Resume all", on_click=partial(self._resume, ALL_KINDS)).props("outline")
            if ALL_KINDS not in counts.paused:
                ui.button("Pause all", on_click=partial(self._pause, ALL_KINDS)).props("outline")

    def _show_kinds(self, by_kind: dict[str, dict[str, int]], paused: list[str]) -> None:
        kinds = sorted(by_kind.keys() | (set(paused) - {ALL_KINDS}))
        if not kinds:
            return
        table = Table(["Kind", *list(STATES.values())[1:], "Action"], "Jobs by kind and state")
        for kind in kinds:
            counted = by_kind.get(kind, {})
            cells = [partial(_show_count, counted.get(state, 0), kind, state) for state in STATES if state]
            table.add_row([partial(_link_kind, kind, kind=kind), *cells, partial(self._show_pause, kind, paused)])

    def _show_pause(self, kind: str, paused: list[str]) -> None:
        is_paused = kind in paused
        with ui.element("div").classes("row"):
            if is_paused:
                ui.label("paused").classes("chip warn")
            label, act = ("Resume", self._resume) if is_paused else ("Pause", self._pause)
            button = ui.button(label, on_click=partial(act, kind)).props("outline dense").mark(f"{label} {kind}")
            button.props["aria-label"] = f"{label}: {name_word(JOB_KINDS, kind)}"

    async def _pause(self, kind: str) -> None:
        await self._page.attempt(self._page.memory.pause_jobs(kind), done=f"Paused: {_name_kind(kind)}")
        await self._counts.refresh()

    async def _resume(self, kind: str) -> None:
        await self._page.attempt(self._page.memory.resume_jobs(kind), done=f"Resumed: {_name_kind(kind)}")
        await self._counts.refresh()

    def _show_kind(self, job: Job) -> None:
        _link_kind(job.kind, job_id=str(job.id))

    def _show_action(self, job: Job) -> None:
        if job.state == "dead":
            ui.button("Replay", on_click=partial(self._replay, job)).props("outline dense").mark(f"replay {job.id}")

    async def _replay(self, job: Job) -> None:
        await self._page.attempt(self._page.memory.replay_job(job.id), done="The job runs again soon")
        await self._list.refresh()
        await self._counts.refresh()


class JobView:
    """One job with its report."""

    def __init__(self, page: PageContext, job_id: str) -> None:
        self._page = page
        self._id = job_id
        show_link("All jobs", "/jobs")
        self._section = Section(page, lambda: page.memory.job(job_id), self._show_job, title="Job")

    def _show_job(self, job: JobDetail) -> None:
        if job.last_error:
            with ui.element("div").classes("state failed" if job.state == "dead" else "state"):
                ui.label("The last error").classes("state-title")
                show_text(job.last_error)
        show_pairs(
            {
                "Kind": partial(show_word, JOB_KINDS, job.kind),
                "State": partial(show_mark, JOB_STATES, job.state),
                "Identifier": partial(show_id, job.id),
                "User": job.user_id or "none",
                "Attempts": str(job.attempts),
                "Next run": format_time(job.next_run),
                "Worker": job.worker or "none",
                "Created": format_time(job.created_at),
                "Changed": format_time(job.updated_at),
            }
        )
        for title, content in (("Input", job.payload), ("Report", job.report)):
            if content:
                heading(title, 3)
                show_text(json.dumps(content, indent=1, ensure_ascii=False), "code block")
        if job.state in ("dead", "done"):
            with ui.element("div").classes("row"):
                ui.button("Replay", on_click=self._replay)

    async def _replay(self) -> None:
        await self._page.attempt(self._page.memory.replay_job(self._id), done="The job runs again soon")
        await self._section.refresh()


def _link_kind(raw: str, /, **params: str | None) -> None:
    show_link(name_word(JOB_KINDS, raw), "/jobs", **params).props["title"] = shorten_text(raw, 60)


def _show_count(count: int, kind: str, state: str) -> None:
    if count:
        show_link(f"{count:,}", "/jobs", kind=kind, state=state)
    else:
        ui.label("0").classes("soft")


def _name_kind(kind: str) -> str:
    return PAUSES_ALL if kind == ALL_KINDS else name_word(JOB_KINDS, kind)
