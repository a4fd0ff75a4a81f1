"""The editor of the rules: validation without a change, the difference, and saving over the version that was read."""

from functools import partial

from mnema_client import MnemaError, VersionConflict
from mnema_wire.tenant_rules import RulesChange, TenantRules
from nicegui import ui

from console.context import PageContext, SessionOver
from console.pages.rules_history import RulesHistory
from console.pages.rules_parts import IN_USE, MoveFields, read_yaml, show_diff, show_refusal
from console.widgets.announce import Announcer
from console.widgets.confirm import ask_confirmation
from console.widgets.keyset import Table
from console.widgets.section import Section, heading
from console.widgets.states import show_note
from console.widgets.text import show_chips, show_line

INTRODUCTION = (
    "The document has categories, allowlists and sections of the policies. It is merged over the installation's "
    "defaults: mappings merge, other values replace, null removes. It is in force everywhere within 5 seconds."
)
EMPTY = "# allowlists:\n#   cook: [profile, goals]\n"
LONGEST_NOTE = 500


class RulesEditor:
    """The rules in force, and the editor of the tenant's own document."""

    history: RulesHistory | None = None

    def __init__(self, page: PageContext) -> None:
        self._page = page
        self._version = 0
        self._state = Announcer()
        self._section = Section(page, self._fetch, self._show, title="The tenant's own rules")
        self._effective = Section(page, lambda: page.memory.tenant_config(), _show_effective, title="In force")

    async def _fetch(self) -> tuple[TenantRules, str]:
        rules = await self._page.memory.tenant_config()
        return rules, await self._page.memory.send(read_yaml())

    def _show(self, found: tuple[TenantRules, str]) -> None:
        rules, text = found
        self._version = rules.version
        ui.label(f"Version {rules.version}" if rules.version else "Version 0: the defaults alone").classes("soft")
        show_note(INTRODUCTION)
        self._editor = ui.codemirror(
            text if rules.document else EMPTY, language="YAML", indent="  ", line_wrapping=True
        ).classes("editor")
        self._editor.props["data-label"] = "Rules as YAML"
        self._moves = MoveFields()
        self._note = (
            ui.input("Note for the history (optional)")
            .classes("wide")
            .props(f"dense outlined maxlength={LONGEST_NOTE}")
        )
        with ui.element("div").classes("row"):
            ui.button("Validate", on_click=self._validate).props("outline")
            ui.button("Save", on_click=self._save)
            ui.button("Discard", on_click=self._section.refresh).props("outline")
        self._result = ui.element("div").classes("stack")

    async def _try_change(self, *, dry_run: bool) -> RulesChange | None:
        """Send the document. Show a refusal in place and return None."""
        self._result.clear()
        self._state.say("")
        try:
            moves = self._moves.read_moves()
        except ValueError:
            ui.notify("Write each move as old: new.", type="warning")
            return None
        note = (self._note.value or "").strip()[:LONGEST_NOTE] or None
        try:
            return await self._page.memory.put_tenant_config(
                self._editor.value or "", version=self._version, move=moves, dry_run=dry_run, note=note
            )
        except (MnemaError, SessionOver) as error:
            if self._page.ends_session(error) or not isinstance(error, MnemaError):
                return None
            with self._result:
                show_refusal(error)
                if error.code == IN_USE:
                    show_note("Say above where the memories of a removed category go, or keep it.", "warning")
                if isinstance(error, VersionConflict):
                    ui.button("Compare with the newest version", on_click=self._compare).props("outline")
            return None

    async def _compare(self) -> None:
        """Show what the document changes in the newest version, and let the next save replace that one."""
        rules = await self._page.attempt(self._page.memory.tenant_config())
        if rules is None:
            return
        self._version = rules.version
        change = await self._try_change(dry_run=True)
        if change is not None:
            self._show_change(change, f"Version {rules.version} is in force now. Save replaces it with your document.")

    async def _validate(self) -> None:
        change = await self._try_change(dry_run=True)
        if change is not None:
            self._show_change(change, "The rules are valid. Nothing is changed yet.")

    async def _save(self) -> None:
        change = await self._try_change(dry_run=True)
        if change is None:
            return
        if change.moved and not await ask_confirmation(
            "Move memories?",
            "\n".join(
                f"{count:,} memories and facts leave the category {name}." for name, count in change.moved.items()
            ),
            action="Save and move",
        ):
            return
        saved = await self._try_change(dry_run=False)
        if saved is None:
            return
        await self._section.refresh()
        with self._result:
            self._show_change(saved, f"Version {saved.version} is saved.")
        await self._effective.refresh()
        if self.history is not None:
            await self.history.refresh()

    def _show_change(self, change: RulesChange, title: str) -> None:
        self._result.clear()
        self._state.say(title)
        with self._result:
            with ui.element("div").classes("state"):
                ui.label(title).classes("state-title")
            for warning in change.warnings:
                show_line(warning, 500).classes("note warning")
            for name, count in change.moved.items():
                show_line(f"{count:,} memories and facts of {name} move.", 300)
            heading("Difference to the version in force before", 3)
            show_diff(change.diff)


def _show_effective(rules: TenantRules) -> None:
    heading("Agents", 3)
    agents = Table(["Agent", "May see"], "Agents and their categories")
    for agent, names in rules.effective.allowlists.items():
        agents.add_row([partial(show_line, agent, 100), partial(show_chips, names)])
    heading("Categories", 3)
    categories = Table(["Category", "Context", "Meaning"], "Categories")
    for rule in rules.effective.categories:
        words = " · ".join(word for word in (rule.label, rule.description) if word)
        context = "whole" if rule.context == "all" else f"ranked, {rule.rag_length}"
        categories.add_row(
            [partial(show_line, rule.name, 100), partial(ui.label, context), partial(show_line, words, 300)]
        )
