"""The section of the page Rules about clusters: the tenant's home, and its move to another one."""

from mnema_client import MnemaError, NotFound
from mnema_wire.places import TenantMove, TenantPlace
from nicegui import ui

from console.context import PageContext
from console.times import format_time
from console.widgets.acting import change_and_reload
from console.widgets.confirm import ask_confirmation
from console.widgets.pairs import show_pairs
from console.widgets.progress import Progress
from console.widgets.section import Section, heading
from console.widgets.states import show_note
from console.widgets.text import show_chips

POLL_S = 3.0


class PlaceView:
    """The tenant's home among the clusters. Without clusters the section is hidden."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        self._section = Section(page, self._fetch, self._show, title="Cluster", at_once=False)
        self._section.element.set_visibility(False)
        ui.timer(0.1, self._section.refresh, once=True)

    async def _fetch(self) -> TenantPlace | None:
        try:
            return await self._page.memory.tenant_place()
        except NotFound:
            return None
        except MnemaError:
            self._section.element.set_visibility(True)
            raise

    def _show(self, found: TenantPlace | None) -> None:
        self._section.element.set_visibility(found is not None)
        if found is None:
            return
        show_pairs(
            {
                "Home": found.cluster,
                "Region": found.region or "none",
                "Bound to the region": found.bound_to or "not bound",
                "Copies in former homes": lambda: show_chips(found.copies or ["none"]),
            }
        )
        if found.unreached:
            show_note(f"These clusters do not answer, and may have a copy: {', '.join(found.unreached)}", "warning")
        if found.move is not None:
            self._show_move(found.move)
        if found.move is None or found.move.ended_at is not None:
            self._show_targets(found)

    def _show_move(self, move: TenantMove) -> None:
        heading(f"Move from {move.source} to {move.target}", 3)
        if move.ended_at is not None:
            end = "Done" if move.state == "done" else "Undone"
            ui.label(f"{end}, {format_time(move.ended_at)}")
            if move.reason:
                show_note(f"It went back: {move.reason}", "warning")
            return
        progress = Progress(_describe(move))
        if move.tables:
            progress.show_step(_describe(move), move.copied / move.tables)
        if move.requested and not move.aborted:
            ui.button("Abort the move", on_click=self._abort).props("outline")
        ui.timer(POLL_S, self._section.refresh, once=True)

    def _show_targets(self, found: TenantPlace) -> None:
        if found.problem is not None:
            show_note(found.problem.detail)
            return
        if not found.targets:
            show_note("No other cluster takes this tenant now.")
            return
        names = {
            target.cluster: f"{target.cluster} ({target.region})" if target.region else target.cluster
            for target in found.targets
        }
        with ui.element("div").classes("row"):
            self._target = ui.select(names, value=next(iter(names)), label="Move to").props("dense outlined")
            ui.button("Move", on_click=self._move)

    async def _move(self) -> None:
        target = str(self._target.value)
        consequence = (
            "A worker copies everything while the tenant is read and written to. Writes wait for about a second at the "
            "end. The former home keeps a copy until the operator deletes it."
        )
        if await ask_confirmation(f"Move to {target}?", consequence, action="Move the tenant"):
            call = self._page.memory.request_move(target)
            await change_and_reload(self._page, call, "The move is asked for", self._section.refresh)

    async def _abort(self) -> None:
        consequence = "The copy is thrown away, and the tenant stays where it is."
        if await ask_confirmation("Abort the move?", consequence, action="Abort it"):
            call = self._page.memory.abort_move()
            await change_and_reload(self._page, call, "The end of the move is asked for", self._section.refresh)


def _describe(move: TenantMove) -> str:
    if move.aborted or move.step in ("undo", "resume"):
        return "Going back"
    if move.state == "waiting":
        return "Waiting for a worker"
    return f"{move.copied} of {move.tables} tables are copied" if move.step == "copy" else f"Step: {move.step}"
