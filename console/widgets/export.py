"""Records as a file, a JSON document a line, with the progress on the page."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from mnema_client import MnemaError
from nicegui import ui

from console.context import PageContext, SessionOver
from console.widgets.download import FileBroken, offer_download, safe_name
from console.widgets.progress import Progress
from console.widgets.states import show_note

CHUNK_BYTES = 64 << 10
SHOWN_EVERY = 200
MEDIA_TYPE = "application/x-ndjson"


def export_records(page: PageContext, name: str, records: AsyncIterator[Mapping[str, Any]]) -> None:
    """Let the browser download records of the API. Show the progress here. `name`: of the file, without its suffix."""
    with ui.element("div").classes("stack") as box:
        progress = Progress("Exporting: waiting for the browser…")
    export = RecordExport(page, records, box, progress)
    offer_download(page, f"mnema-{safe_name(name)}.ndjson", export.write_chunks(), MEDIA_TYPE)


class RecordExport:
    """An export that runs while the browser loads it."""

    def __init__(
        self, page: PageContext, records: AsyncIterator[Mapping[str, Any]], box: ui.element, progress: Progress
    ) -> None:
        self._page = page
        self._records = records
        self._box = box
        self._progress = progress
        self._count = 0

    async def write_chunks(self) -> AsyncGenerator[bytes]:
        """Yield the lines in chunks. Raise FileBroken after an error, which the page shows."""
        chunk = bytearray()
        try:
            async for record in self._records:
                self._page.check_session()  # a revoked key ends the session, and the export with it
                chunk += json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
                self._count_record()
                if len(chunk) >= CHUNK_BYTES:
                    yield bytes(chunk)
                    chunk.clear()
        except (MnemaError, SessionOver) as error:
            self._page.report_error(error)
            self._end("The export is incomplete. Export again.", "warning")
            raise FileBroken from error
        except (GeneratorExit, asyncio.CancelledError):
            self._end("The browser ended the download.", "warning")
            raise
        yield bytes(chunk)
        self._end(f"Exported: {self._count:,} records.", "info")

    def _count_record(self) -> None:
        self._count += 1
        if self._count % SHOWN_EVERY == 0 and not self._box.is_deleted:
            self._progress.show_step(f"Exporting: {self._count:,} records. Keep this page open.")

    def _end(self, text: str, kind: str) -> None:
        if self._box.is_deleted or self._page.client.is_deleted:
            return
        self._box.clear()
        with self._box:
            show_note(text, kind)
