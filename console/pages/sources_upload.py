"""The upload of files into a source. It is built once: an upload ends when its element goes."""

from collections.abc import Awaitable, Callable

from nicegui import ui
from nicegui.events import UploadEventArguments

from console.context import PageContext

REFUSED_UPLOAD = "The upload did not arrive: the file is too large for the console, or the session has ended."


class UploadForm:
    """The button that uploads files, and their folder. `on_stored` is called after each file that the API took."""

    def __init__(self, page: PageContext, source_id: str, on_stored: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._id = source_id
        self._on_stored = on_stored
        with ui.element("div").classes("filters"):
            self._folder = ui.input("Upload into folder (optional)").props("dense outlined autocomplete=off")
        upload = ui.upload(multiple=True, auto_upload=True, on_upload=self._store)
        upload.classes("hidden")  # its own parts have no labels for screen readers
        upload.on("start", self._folder.disable)  # all files of one choice go into one folder
        upload.on("finish", self._folder.enable)
        upload.on("failed", lambda: ui.notify(REFUSED_UPLOAD, type="negative"))
        with ui.element("div").classes("row"):
            pick = ui.button("Upload files").props("outline")
            pick.on("click", js_handler=f"() => getElement({upload.id}).$refs.qRef.pickFiles()")

    async def _store(self, event: UploadEventArguments) -> None:
        folder = self._folder.value.strip().strip("/")
        path = f"{folder}/{event.file.name}" if folder else event.file.name
        content = await event.file.read()
        answer = await self._page.attempt(self._page.memory.upload_file(self._id, path, content))
        if answer is not None:
            with self._page.client:
                ui.notify(f"The file is {answer.action}.", type="positive")
            await self._on_stored()
