"""Parts of the page Sources: states, sizes, and an index job with its progress."""

from collections.abc import Callable, Coroutine

from mnema_client import MnemaError, NotFound
from mnema_wire.sources import IndexJob, SourceStatus
from nicegui import background_tasks, ui

from console.context import PageContext, SessionOver
from console.widgets.text import show_line, show_time
from console.widgets.words import show_mark
from console.words import JOB_STATES, SOURCE_STATES, name_word

POLL_S = 1.5
UNITS = ("bytes", "KB", "MB", "GB", "TB")


def show_status(status: SourceStatus) -> None:
    """Show the state of a source and the error of its last index job."""
    show_mark(SOURCE_STATES, status.state)
    if status.error:
        show_line(status.error, 200).classes("soft")


def format_bytes(number: float) -> str:
    """Return a size such as `12.5 KB`, with units of 1,024."""
    unit = 0
    while number >= 1024 and unit < len(UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:,.0f} {UNITS[unit]}" if unit == 0 else f"{number:,.1f} {UNITS[unit]}"


class RunningJob:
    """An index job that has not ended: its progress, asked for until the end. Then `on_end` is called once."""

    def __init__(self, page: PageContext, job: IndexJob, on_end: Callable[[], Coroutine[None, None, None]]) -> None:
        self._page = page
        self._job = job
        self._on_end = on_end
        self._failed = False
        with ui.element("div").classes("progress stack"):
            self._label = ui.label()
            self._bar = ui.linear_progress(value=0, show_value=False).props('aria-label="Progress of the index job"')
            self._show_job(job)
            self._timer = ui.timer(POLL_S, self._ask, immediate=False)

    async def _ask(self) -> None:
        try:
            job = await self._page.memory.index_job(self._job.source_id, self._job.id)
        except NotFound:  # a removal has ended with its source
            self._end()
        except (MnemaError, SessionOver) as error:
            if self._page.ends_session(error):
                self._timer.cancel()
            elif not self._failed:  # report the first failure; the next time may succeed
                self._failed = True
                self._page.report_error(error)
        else:
            self._failed = False
            if job.has_ended:
                self._end()
            else:
                self._show_job(job)

    def _end(self) -> None:
        """Stop asking, and call `on_end` in a task of its own: it may delete the timer, which cancels this one."""
        self._timer.cancel()
        background_tasks.create(self._on_end(), name="show a source again")

    def _show_job(self, job: IndexJob) -> None:
        if job.files_total:
            self._label.set_text(f"{name_word(JOB_STATES, job.state)}: {job.files_done:,} of {job.files_total:,} files")
            self._bar.props(remove="indeterminate").set_value(job.files_done / job.files_total)
        else:
            self._label.set_text(f"{name_word(JOB_STATES, job.state)}: the files are not counted yet")
            self._bar.props("indeterminate")


def show_job_result(job: IndexJob) -> None:
    """Show what an index job did."""
    changes = [
        f"{count:,} {name}"
        for name, count in (
            ("added", job.added),
            ("changed", job.changed),
            ("unchanged", job.unchanged),
            ("removed", job.removed),
            ("rejected", job.rejected),
        )
        if count
    ]
    ui.label("files: " + (", ".join(changes) or "none"))
    ui.label(f"chunks: {job.chunks_added:,} added, {job.chunks_kept:,} kept, {job.chunks_removed:,} removed").classes(
        "soft"
    )
    if job.error:
        show_line(job.error, 400).classes("bad-text")


def show_job_times(job: IndexJob) -> None:
    """Show when a job was queued, and how long it ran."""
    show_time(job.created_at)
    if job.started_at and job.ended_at:
        ui.label(f"ran {(job.ended_at - job.started_at).total_seconds():,.1f} s").classes("soft")
