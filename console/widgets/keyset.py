"""A list that loads page by page: a table on a wide screen, cards on a phone."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from mnema_wire.bases import Page
from nicegui import background_tasks, ui

from console.context import PageContext
from console.widgets.section import log_fault
from console.widgets.states import show_empty_state, show_error, show_loading

T = TypeVar("T")
Cell = Callable[[T], object]


class EmptyState(NamedTuple):
    """The words for a list without entries. `action`: the label of a button that does something about it."""

    title: str
    hint: str
    action: str = ""
    on_action: Callable[[], object] | None = None


def cut_page(items: Sequence[T], cursor: str | None, size: int) -> Page[T]:
    """Return a page of items that are loaded already."""
    begin = int(cursor or 0)
    end = begin + size
    return Page(items=list(items[begin:end]), next_cursor=str(end) if end < len(items) else None)


class Table:
    """A table of native elements. Each cell knows its column's name, which a phone shows beside it."""

    def __init__(self, columns: Sequence[str], label: str) -> None:
        self._columns = columns
        with ui.element("table").classes("table") as table:
            with ui.element("thead"), ui.element("tr"):
                for name in columns:
                    with ui.element("th").props("scope=col"):
                        ui.label(name)
            self._body = ui.element("tbody")
        table.props["aria-label"] = label

    def add_row(self, cells: Sequence[Callable[[], object]]) -> ui.element:
        """Add a row and return it. Each cell is a function that builds its elements."""
        with self._body, ui.element("tr") as row:
            for name, build in zip(self._columns, cells, strict=True):
                with ui.element("td") as cell:
                    build()
                cell.props["data-label"] = name
        return row


class EntryList:
    """A list of entries, one below the other."""

    def __init__(self, label: str) -> None:
        self._list = ui.element("ul").classes("stack plain")
        self._list.props["aria-label"] = label

    def add_row(self, cells: Sequence[Callable[[], object]]) -> ui.element:
        """Add an entry and return it. Each cell builds a part of it."""
        with self._list, ui.element("li").classes("entry") as row:
            for build in cells:
                build()
        return row


class KeysetList(Generic[T]):
    """Items of the API in pages, each fetched with the cursor of the one before.

    `fetch`: returns the page after a cursor (None: the first). `columns`: names and the builders of their cells; with
    `build_entry` instead, the items are entries of a list. `empty`: the title and the hint that are shown if there is
    nothing, or a function that returns them, as where they depend on filters.
    """

    def __init__(
        self,
        page: PageContext,
        fetch: Callable[[str | None], Awaitable[Page[T]]],
        columns: dict[str, Cell[T]] | None = None,
        *,
        build_entry: Cell[T] | None = None,
        label: str,
        empty: tuple[str, str] | Callable[[], EmptyState],
        at_once: bool = True,
    ) -> None:
        self._page = page
        self._fetch = fetch
        self._columns = columns or {}
        self._build_entry = build_entry
        self._label = label
        self._empty = empty
        self._table: Table | EntryList | None = None
        self._shown = 0
        self._turn = 0
        with ui.element("div").classes("stack"):
            self._rows = ui.element("div").classes("stack")
            self._foot = ui.element("div").classes("row foot").props("aria-live=polite")
        if at_once:
            background_tasks.create(self.refresh(), name=f"load {label}")

    async def refresh(self) -> None:
        """Load the first page again."""
        self._turn += 1
        await self._load(None, self._turn)

    async def _load(self, cursor: str | None, turn: int) -> None:
        self._show_foot(show_loading)
        try:
            found = await self._fetch(cursor)
            if turn == self._turn and not self._page.client.is_deleted:  # else a newer search has begun
                self._show_page(found, cursor, turn)
        except Exception as error:  # of the API or a fault: the list never stays at "Loading…"
            if not self._page.ends_session(error) and turn == self._turn:
                log_fault(error)
                failure = error
                self._show_foot(lambda: show_error(failure, lambda: self._load(cursor, turn)))

    def _show_page(self, found: Page[T], cursor: str | None, turn: int) -> None:
        if cursor is None:
            self._rows.clear()
            self._table = None
            self._shown = 0
        first = self._add_items(found.items)
        self._show_foot(lambda: self._end_page(found.next_cursor, turn))
        if cursor is not None and first is not None:  # the button that had the focus is gone
            first.props("tabindex=-1").run_method("focus")

    def _add_items(self, items: Sequence[T]) -> ui.element | None:
        """Add a row for each item and return the first one."""
        if not items:
            return None
        if self._table is None:
            with self._rows:
                self._table = EntryList(self._label) if self._build_entry else Table(list(self._columns), self._label)
        builders = [self._build_entry] if self._build_entry else list(self._columns.values())
        rows = [self._table.add_row([_bind_cell(build, item) for build in builders]) for item in items]
        self._shown += len(items)
        return rows[0]

    def _end_page(self, next_cursor: str | None, turn: int) -> None:
        if not self._shown and next_cursor is None:
            show_empty_state(*(self._empty() if callable(self._empty) else self._empty))
            return
        ui.label(f"{self._shown:,} shown" + ("" if next_cursor else ", all of them")).classes("soft")
        if next_cursor:
            ui.button("Load more", on_click=lambda: self._load(next_cursor, turn)).props("outline")

    def _show_foot(self, build: Callable[[], None]) -> None:
        if self._page.client.is_deleted or self._foot.is_deleted:
            return
        self._foot.clear()
        with self._foot:
            build()


def _bind_cell(build: Cell[T], item: T) -> Callable[[], object]:
    return lambda: build(item)
