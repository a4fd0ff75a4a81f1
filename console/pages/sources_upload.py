"""The upload of files into a source. It is built once: an upload ends when its element goes."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack

from nicegui import background_tasks, ui
from nicegui.events import GenericEventArguments, UploadEventArguments

from console.context import PageContext

REFUSALS = {
    408: "The upload was too slow and was given up. Upload the file again.",
    413: "The file is too large for the console. Use the command line: `mnema source add FOLDER --upload`.",
    429: "Too many uploads at once. Wait until others have ended, then upload the file again.",
}
LOST = "The upload did not arrive: the connection was lost, or the session has ended."


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
