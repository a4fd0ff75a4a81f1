"""One person: counts, consented context, the consent inbox, export and erase."""

from mnema_client import NotFound
from mnema_wire.consent import Context, KnownValue
from mnema_wire.memory import Receipt
from mnema_wire.overview import UserOverview
from nicegui import ui

from console.context import PageContext
from console.pages.person_consent import ConsentInbox
from console.texts import reveal_text, shorten_text
from console.times import format_time
from console.widgets.confirm import ask_confirmation
from console.widgets.export import export_records
from console.widgets.pairs import show_tiles
from console.widgets.progress import show_progress
from console.widgets.section import Section
from console.widgets.states import show_empty_state, show_note
from console.widgets.text import show_link, show_text, show_time
from console.words import explain_user

PLACES = {"Memories": "/memories", "Threads": "/threads", "Facts": "/facts", "Graph": "/graph", "Bin": "/bin"}


def show_person(page: PageContext, user_id: str) -> None:
    """Show one person. An action loads the parts that it changed again."""
    PersonPage(page, user_id)


class PersonPage:
    """The parts of the page of one person."""

    def __init__(self, page: PageContext, user_id: str) -> None:
        self._page = page
        self._user = user_id
        show_link("All people", "/people")
        with ui.element("h2"):
            ui.label(reveal_text(user_id, 400)).classes("text")
        if kind := explain_user(user_id):
            show_note(f"This is no person: {kind}.")
        self._card = Section(page, self._fetch_card, self._show_card)
        self._context = Section(page, self._fetch_context, self._show_context, title="Context")
        self._inbox = ConsentInbox(page, user_id, self._context.refresh)

    async def _fetch_card(self) -> UserOverview | None:
        found = await self._page.memory.user_page(prefix=self._user, limit=1)
        return next((user for user in found.items if user.user_id == self._user), None)

    def _show_card(self, user: UserOverview | None) -> None:
        if user is None:
            show_empty_state("Nothing is stored", "No memory names this user, or your key may not see any.")
            return
        show_tiles({"memories": f"{user.memories:,}", "threads": f"{user.threads:,}"})
        with ui.element("div").classes("row"):
            ui.label("last activity").classes("soft")
            show_time(user.last_activity_at)
            ui.label("first seen").classes("soft")
            show_time(user.created_at)
        with ui.element("div").classes("row"):
            for label, path in PLACES.items():
                show_link(label, path, user_id=self._user)
        with ui.element("div").classes("row"):
            ui.button("Export", on_click=self._export).props("outline")
            if self._page.key.allows("admin"):
                ui.button("Erase", on_click=self._erase).props("outline color=negative")
        self._work = ui.element("div").classes("stack")

    async def _export(self) -> None:
        with self._work:
            export_records(self._page, self._user, self._page.memory.export(self._user))

    async def _erase(self) -> None:
        consequence = (
            "Everything that is stored about this person is deleted for good: memories, facts, context, turns and "
            "sources. It cannot be undone. The erased texts are refused if somebody sends them again."
        )
        title = f"Erase {shorten_text(self._user, 80)}?"
        if not await ask_confirmation(title, consequence, action="Erase for good", typed=self._user):
            return
        with self._work, show_progress("Erasing…"):
            receipt = await self._page.attempt(self._page.memory.erase(self._user), "Erased")
        if receipt is None:
            return
        await self._card.refresh()
        await self._context.refresh()
        await self._inbox.refresh()
        with self._card.element:
            _show_receipt(receipt)

    async def _fetch_context(self) -> Context | None:
        try:
            return await self._page.memory.context(self._user)
        except NotFound:
            return None

    def _show_context(self, known: Context | None) -> None:
        if known is None or not known.values:
            show_empty_state("Nothing is known", "Agents propose values; the person approves them, here or in a chat.")
            return
        show_text(known.profile).classes("memory-text")
        with ui.element("ul").classes("stack plain"):
            for value in known.values:
                with ui.element("li").classes("entry"):
                    self._show_value(value)

    def _show_value(self, known: KnownValue) -> None:
        with ui.element("div").classes("row"):
            ui.label(shorten_text(known.field, 60)).classes("chip")
            show_text(known.value)
            show_time(known.updated_at)
            if self._page.key.allows("approve"):
                button = ui.button("Withdraw", on_click=lambda: self._withdraw(known)).props("flat dense")
                button.props["aria-label"] = f"Withdraw {shorten_text(known.field, 60)} {shorten_text(known.value, 60)}"

    async def _withdraw(self, known: KnownValue) -> None:
        question = f"Withdraw {shorten_text(known.field, 60)}?"
        consequence = f"“{shorten_text(known.value)}” is no longer known of this person."
        if not await ask_confirmation(question, consequence, action="Withdraw value"):
            return
        call = self._page.memory.withdraw(self._user, known.field, known.value)
        if await self._page.attempt(call, "Withdrawn"):
            await self._context.refresh()


def _show_receipt(receipt: Receipt) -> None:
    counts = ", ".join(
        f"{count:,} {shorten_text(name, 40).replace('_', ' ')}" for name, count in receipt.counts.items() if count
    )
    show_note(f"Erased at {format_time(receipt.erased_at)}. {counts}.")
