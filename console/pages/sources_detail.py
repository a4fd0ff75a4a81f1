"""One source: what it holds, its files with reasons, its index jobs with progress, uploads, and its removal."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

from mnema_client import sources as calls
from mnema_wire.bases import Page
from mnema_wire.sources import DocumentSource, FileState, IndexJob, SourceFile
from nicegui import background_tasks, ui
from nicegui.events import GenericEventArguments, UploadEventArguments

from console.context import PageContext, page_address
from console.pages.sources_parts import (
    RunningJob,
    format_bytes,
    show_job_result,
    show_job_times,
    show_status,
)
from console.session import COOKIE_PATH
from console.times import format_time
from console.widgets.confirm import ask_confirmation
from console.widgets.download import offer_download, safe_file_name, send_whole
from console.widgets.keyset import KeysetList
from console.widgets.pairs import show_pairs
from console.widgets.section import Section, heading
from console.widgets.states import show_note
from console.widgets.text import show_line, show_link, show_text
from console.widgets.words import show_mark, show_word
from console.words import FILE_STATES, INDEX_CAUSES, INDEX_KINDS, JOB_STATES, name_choices

REFUSALS = {
    408: "The upload was too slow and was given up. Upload the file again.",
    413: "The file is too large for the console. Use the command line: mnema source add FOLDER --upload.",
    429: "Too many uploads at once. Wait until others have ended, then upload the file again.",
}
LOST = "The upload did not arrive: the connection was lost, or the session has ended."
PAGE_ITEMS = 25
JOBS_SHOWN = 10
STATES = name_choices(FILE_STATES, "All")


class SourceView:
    """The page of one source."""

    def __init__(self, page: PageContext, source_id: str) -> None:
        self._page = page
        self._id = source_id
        state = page.params.get("state", "")
        self._state = state if state in STATES else ""
        show_link("All sources", "/sources")
        self._source = Section(page, self._fetch, self._show_source, title="Source")
        with ui.element("section").classes("section").props("aria-label=Files"):
            self._show_files()
        with ui.element("section").classes("section").props('aria-label="Index jobs"'):
            heading("Index jobs")
            self._jobs = KeysetList(
                page,
                self._fetch_jobs,
                {
                    "Job": _show_job,
                    "State": lambda job: show_mark(JOB_STATES, job.state),
                    "Result": show_job_result,
                    "Queued": show_job_times,
                },
                label="Index jobs",
                empty=("No index jobs yet", "Upload a file, or press “Index again”."),
            )

    async def _fetch(self) -> tuple[DocumentSource, IndexJob | None]:
        source, jobs = await asyncio.gather(
            self._page.memory.source(self._id),
            self._page.memory.send(calls.index_job_page(self._id, limit=JOBS_SHOWN)),
        )
        running = [job for job in jobs.items if not job.has_ended]
        return source, running[-1] if running else None

    async def _fetch_jobs(self, cursor: str | None) -> Page[IndexJob]:
        return await self._page.memory.send(calls.index_job_page(self._id, limit=JOBS_SHOWN, cursor=cursor))

    async def _fetch_files(self, cursor: str | None) -> Page[SourceFile]:
        state = cast(FileState, self._state) if self._state else None
        call = calls.source_file_page(self._id, state=state, limit=PAGE_ITEMS, cursor=cursor)
        return await self._page.memory.send(call)

    async def _refresh(self) -> None:
        await self._source.refresh()
        await self._files.refresh()
        await self._jobs.refresh()

    def _show_source(self, found: tuple[DocumentSource, IndexJob | None]) -> None:
        source, running = found
        show_text(source.name, "memory-text")
        if running is not None:
            RunningJob(self._page, running, self._refresh)
        status = source.status
        show_pairs(
            {
                "Status": partial(show_status, status),
                "Kind": "folder of the server" if source.kind == "folder" else "uploaded files",
                **({"Folder": source.root_path} if source.root_path else {}),
                "Category": source.category,
                "User": "all users" if source.user_id == "_shared" else source.user_id,
                "Files": f"{status.files:,}: {status.indexed:,} indexed, {status.waiting:,} waiting, "
                f"{status.rejected:,} rejected",
                "Chunks": f"{status.chunks:,}",
                "Size": format_bytes(status.bytes),
                "Include": ", ".join(source.include) or "all files",
                "Exclude": ", ".join(source.exclude) or "nothing",
                "Indexed": format_time(status.synced_at),
                "Added": format_time(source.created_at),
            }
        )
        if status.state == "removing":
            self._uploads.clear()
            show_note("This source is being removed. Queries find nothing of it any more.", "warning")
        else:
            self._show_actions(source)

    def _show_actions(self, source: DocumentSource) -> None:
        if source.kind == "upload" and self._page.key.allows("write") and not self._uploads.default_slot.children:
            with self._uploads:
                UploadForm(self._page, self._id, self._refresh)
        with ui.element("div").classes("row"):
            if self._page.key.allows("write"):
                ui.button("Index again", on_click=self._sync)
            if self._page.key.allows("admin"):
                ui.button("Remove", color="negative", on_click=partial(self._remove, source)).props("outline")
        if not self._page.key.allows("admin"):
            ui.label("Removing a source needs a key with scope admin.").classes("soft")

    async def _sync(self) -> None:
        if await self._page.attempt(self._page.memory.sync_source(self._id), done="An index job is queued"):
            await self._refresh()

    async def _remove(self, source: DocumentSource) -> None:
        consequence = (
            f"Queries find nothing of its {source.status.files:,} files and {source.status.chunks:,} chunks any more, "
            "and a job deletes them. The originals of a folder stay; uploaded files are deleted for good."
        )
        if await ask_confirmation(f"Remove {source.name}?", consequence, action="Remove for good", typed=source.name):
            await self._page.attempt(self._page.memory.remove_source(self._id), done="The source is being removed")
            await self._refresh()

    def _show_files(self) -> None:
        heading("Files")
        self._uploads = ui.element("div").classes("stack")
        with ui.element("div").classes("filters"):
            ui.select(STATES, label="State", value=self._state, on_change=self._choose_state).props(
                "dense outlined options-dense data-search"
            ).mark("filter-state")
        self._files = KeysetList(
            self._page,
            self._fetch_files,
            {
                "File": lambda file: show_line(file.path, 200),
                "State": _show_file_state,
                "Chunks": lambda file: ui.label(f"{file.chunks:,}").classes("number"),
                "Size": lambda file: ui.label(format_bytes(file.size)).classes("number"),
                "Changed": lambda file: ui.label(format_time(file.modified_at)).classes("time"),
                "Action": self._show_file_action,
            },
            label="Files",
            empty=("No files here", "Upload one above, choose another state, or press “Index again”."),
        )

    async def _choose_state(self, event: Any) -> None:
        self._state = event.value
        address = page_address("/sources", source_id=self._id, state=self._state or None)
        ui.navigate.history.replace(COOKIE_PATH + address)
        await self._files.refresh()

    def _show_file_action(self, file: SourceFile) -> None:
        if not file.uploaded:
            return
        with ui.element("div").classes("row"):
            ui.button("Download", on_click=partial(self._download, file)).props("outline dense")
            if self._page.key.allows("admin"):
                ui.button("Delete", on_click=partial(self._delete, file)).props("outline dense")

    async def _download(self, file: SourceFile) -> None:
        content = await self._page.attempt(self._page.memory.download_file(self._id, file.id))
        if content is not None:
            offer_download(self._page, safe_file_name(file.path), send_whole(content), "application/octet-stream")

    async def _delete(self, file: SourceFile) -> None:
        consequence = f"{file.path} and its {file.chunks:,} chunks are deleted for good."
        if await ask_confirmation("Delete this file?", consequence, action="Delete for good"):
            await self._page.attempt(self._page.memory.delete_file(self._id, file.id), done="Deleted")
            await self._refresh()


def _show_file_state(file: SourceFile) -> None:
    show_mark(FILE_STATES, file.state)
    if file.message or file.reason:
        show_line(file.message or file.reason or "", 300).classes("soft")


def _show_job(job: IndexJob) -> None:
    show_word(INDEX_KINDS, job.kind)
    show_word(INDEX_CAUSES, job.cause).classes("soft")


class UploadForm:
    """The button that uploads files, and their folder. `on_stored` is called after each file that the API took."""

    def __init__(self, page: PageContext, source_id: str, on_stored: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._id = source_id
        self._on_stored = on_stored
        with ui.element("div").classes("filters"):
            self._folder = ui.input("Upload into folder (optional)").props("dense outlined autocomplete=off")
        upload = ui.upload(multiple=True, auto_upload=True, on_upload=self._accept)
        upload.classes("hidden")  # its own parts have no labels for screen readers
        upload.on("start", self._folder.disable)  # all files of one choice go into one folder
        upload.on("finish", self._folder.enable)
        upload.on("failed", _show_refusal, js_handler="(info) => emit(info.xhr ? info.xhr.status : 0)")
        with ui.element("div").classes("row"):
            pick = ui.button("Upload files").props("outline")
            pick.on("click", js_handler=f"() => getElement({upload.id}).$refs.qRef.pickFiles()")

    def _accept(self, event: UploadEventArguments) -> None:
        """Store a file that has arrived. It counts as an upload from now on: its request ends before it is stored."""
        slot = ExitStack()
        slot.enter_context(self._page.registry.uploads.hold_slot(self._page.opened.session.id))
        task = background_tasks.create(self._store(event), name="store an upload", context=self._page.client)
        task.add_done_callback(lambda _task: slot.close())

    async def _store(self, event: UploadEventArguments) -> None:
        folder = self._folder.value.strip().strip("/")
        path = f"{folder}/{event.file.name}" if folder else event.file.name
        content = await event.file.read()
        answer = await self._page.attempt(self._page.memory.upload_file(self._id, path, content))
        if answer is not None:
            with self._page.client:
                ui.notify(f"The file is {answer.action}.", type="positive")
            await self._on_stored()


def _show_refusal(event: GenericEventArguments) -> None:
    ui.notify(REFUSALS.get(event.args, LOST) if isinstance(event.args, int) else LOST, type="negative")
