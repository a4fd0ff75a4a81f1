"""The page Rules: the tenant's own categories, agents and settings. It needs scope admin."""

from console.context import PageContext
from console.pages.place import PlaceView
from console.pages.rules_editor import RulesEditor
from console.pages.rules_history import RulesHistory, VersionView
from console.widgets.states import show_note

LONGEST_VERSION = 9


def show(page: PageContext) -> None:
    """Show the editor with the history, or one version if the address names it."""
    version = page.params.get("version", "")
    if not page.key.allows("admin"):
        show_note("Your key may not see the rules: it has no scope admin.", "warning")
    elif version.isascii() and version.isdecimal() and len(version) <= LONGEST_VERSION:
        VersionView(page, int(version))
    else:
        editor = RulesEditor(page)
        editor.history = RulesHistory(page)
        PlaceView(page)
