"""The versions of the rules: who made them, their differences, and the return to an earlier one."""

from functools import partial

from mnema_wire.bases import Page
from mnema_wire.tenant_rules import RulesDiff, RulesVersion
from nicegui import ui

from console.context import PageContext
from console.pages.rules_parts import MoveFields, read_yaml, show_diff
from console.widgets.confirm import ask_confirmation
from console.widgets.keyset import KeysetList
from console.widgets.section import Section, heading
from console.widgets.text import show_line, show_link, show_text, show_time

PAGE_ITEMS = 25


class RulesHistory:
    """The list of versions, newest first."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        with ui.element("section").classes("section").props("aria-label=History"):
            heading("History")
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Version": lambda version: show_link(
                        f"Version {version.version}", "/rules", version=str(version.version)
                    ),
                    "Made": lambda version: show_time(version.created_at),
                    "By": lambda version: show_line(version.actor or "", 100),
                    "Note": lambda version: show_line(version.note or "", 200),
                },
                label="Versions",
                empty=("Only the defaults so far", "Save rules above to make the first version."),
            )

    async def refresh(self) -> None:
        """Load the versions again."""
        await self._list.refresh()

    async def _fetch(self, cursor: str | None) -> Page[RulesVersion]:
        return await self._page.memory.tenant_config_page(limit=PAGE_ITEMS, cursor=cursor)


class VersionView:
    """One version: what it changed, what differs from the version in force, and the way back to it."""

    def __init__(self, page: PageContext, version: int) -> None:
        self._page = page
        self._version = version
        show_link("The rules in force", "/rules")
        if version:
            before = partial(self._compare, version - 1, version)
            Section(page, before, lambda found: show_diff(found.diff), title=f"What version {version} changed")
        Section(page, self._compare_with_present, self._show_way_back, title="Difference to the version in force")
        Section(page, lambda: page.memory.send(read_yaml(version)), _show_document, title=f"Version {version}")

    async def _compare(self, old: int, new: int) -> RulesDiff:
        return await self._page.memory.tenant_config_diff(old, new)

    async def _compare_with_present(self) -> RulesDiff:
        rules = await self._page.memory.tenant_config()
        return await self._compare(rules.version, self._version)

    def _show_way_back(self, found: RulesDiff) -> None:
        show_diff(found.diff)
        if found.from_version == found.to_version or not found.diff:
            ui.label("This version is in force.").classes("soft")
            return
        self._moves = MoveFields()
        with ui.element("div").classes("row"):
            ui.button("Put in force again", on_click=partial(self._roll_back, found.from_version))

    async def _roll_back(self, seen: int) -> None:
        try:
            moves = self._moves.read_moves()
        except ValueError:
            ui.notify("Write each move as old: new.", type="warning")
            return
        consequence = "It becomes a new version, in force everywhere within 5 seconds. The history keeps all others."
        if not await ask_confirmation(f"Put version {self._version} in force?", consequence, action="Put in force"):
            return
        call = self._page.memory.rollback_tenant_config(self._version, if_version=seen, move=moves)
        if await self._page.attempt(call, done="The rules are in force") is not None:
            self._page.go_to("/rules")


def _show_document(text: str) -> None:
    show_text(text, "code block")
