"""The page Sources: the list with status and counts, and the form that adds one."""

from typing import Any

from mnema_client import sources as calls
from mnema_wire.bases import Page
from mnema_wire.sources import DocumentSource
from nicegui import ui

from console.context import PageContext
from console.pages.sources_detail import SourceView
from console.pages.sources_parts import format_bytes, show_status
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import show_chips, show_line, show_link, show_time, show_user

LONGEST_FIELD = 500
PAGE_ITEMS = 25
LONGEST_ID = 100
SHARED_USER = "_shared"


def show(page: PageContext) -> None:
    """Show the list, or one source if the address names it."""
    if not page.key.allows("query"):
        show_note("Your key may not read sources: it has no scope query.", "warning")
    elif source_id := page.params.get("source_id", "")[:LONGEST_ID]:
        SourceView(page, source_id)
    else:
        SourcesView(page)


class SourcesView:
    """The list, and the form that adds a source."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        with ui.element("section").classes("section").props('aria-label="Sources of documents"'):
            heading("Sources of documents")
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Source": _show_source,
                    "Status": lambda source: show_status(source.status),
                    "Files": _show_files,
                    "Chunks": lambda source: ui.label(f"{source.status.chunks:,}").classes("number"),
                    "Size": lambda source: ui.label(format_bytes(source.status.bytes)).classes("number"),
                    "Found by": _show_readers,
                    "Indexed": lambda source: show_time(source.status.synced_at),
                },
                label="Sources",
                empty=("No sources yet", "Add one below, or on the command line: mnema source add FOLDER --upload."),
            )
        if page.key.allows("write"):
            NewSourceForm(page)

    async def _fetch(self, cursor: str | None) -> Page[DocumentSource]:
        return await self._page.memory.send(calls.source_page(limit=PAGE_ITEMS, cursor=cursor))


class NewSourceForm:
    """The form that adds a source of uploads, or a folder that the workers read."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        with ui.element("section").classes("section").props('aria-label="Add a source"'):
            heading("Add a source")
            with ui.element("div").classes("filters"):
                self._name = _text_field("Name")
                self._category = _text_field("Category", "knowledge")
                self._user = _text_field("User (empty: all users)")
                self._folder = _text_field("Folder of the server") if page.key.allows("admin") else None
            if self._folder is not None:
                show_note("Without a folder, files are uploaded to the source. A folder must be below source_roots.")
            with ui.element("div").classes("row"):
                ui.button("Add", on_click=self._add)

    async def _add(self) -> None:
        folder = self._folder.value.strip() if self._folder else ""
        if not folder and not self._name.value.strip():
            ui.notify("Give the source a name.", type="warning")
            return
        fields: dict[str, Any] = {
            "name": self._name.value.strip() or None,
            "category": self._category.value.strip() or None,
            "user_id": self._user.value.strip() or None,
        }
        made = await self._page.attempt(self._page.memory.add_source(folder or None, **fields), done="Source added")
        if made is not None:
            self._page.go_to("/sources", source_id=str(made.id))


def _text_field(label: str, value: str = "") -> ui.input:
    return ui.input(label, value=value).props(f"dense outlined autocomplete=off maxlength={LONGEST_FIELD}")


def _show_source(source: DocumentSource) -> None:
    show_link(source.name, "/sources", source_id=str(source.id))
    if source.root_path:
        show_line(source.root_path, 100).classes("soft")


def _show_files(source: DocumentSource) -> None:
    ui.label(f"{source.status.files:,}").classes("number")
    if source.status.waiting:
        ui.label(f"{source.status.waiting:,} waiting").classes("soft")
    if source.status.rejected:
        show_link(f"{source.status.rejected:,} rejected", "/sources", source_id=str(source.id), state="rejected")


def _show_readers(source: DocumentSource) -> None:
    show_chips([source.category])
    show_user(source.user_id)
