"""The page Keys: the person's own key; for the operator, the tenants and their keys."""

from nicegui import ui

from console.context import PageContext
from console.keys import PersonKey
from console.pages.keys_operator import TenantsView, TenantView
from console.widgets.pairs import show_pairs
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import format_time, show_chips, show_id

LONGEST_ID = 100
SCOPES = {
    "query": "read memories, facts, sources and headers",
    "write": "write, edit and delete memories",
    "chat": "chat with memory",
    "approve": "decide about consent",
    "read_all": "read the memories of all users at once",
    "admin": "everything, with jobs, rules, export and erasure",
}


def show(page: PageContext) -> None:
    """Show the page."""
    if not page.key.is_operator:
        _show_own_key(page.key)
    elif tenant_id := page.params.get("tenant_id", "")[:LONGEST_ID]:
        TenantView(page, tenant_id)
    else:
        TenantsView(page)


def _show_own_key(key: PersonKey) -> None:
    with ui.element("section").classes("section").props('aria-label="Your key"'):
        heading("Your key")
        show_pairs(
            {
                "Tenant": key.tenant,
                "Name": key.name,
                "Identifier": lambda: show_id(key.key_id),
                "Expires": format_time(key.expires_at),
                "Agents": "not bound: it may speak for every agent"
                if key.agents is None
                else lambda: show_chips(key.agents or ()),
                "Categories": "all" if key.categories is None else lambda: show_chips(key.categories or ()),
            }
        )
        heading("What it may do", 3)
        with ui.element("ul").classes("plain stack"):
            for scope, meaning in SCOPES.items():
                with ui.element("li").classes("row"):
                    allowed = key.allows(scope)
                    ui.label("yes" if allowed else "no").classes("chip good" if allowed else "chip")
                    ui.label(f"{scope}: {meaning}")
    with ui.element("section").classes("section").props('aria-label="Other keys"'):
        heading("Other keys")
        show_note(
            "Keys are created and revoked by the operator: sign in here with the operator's key "
            "(MNEMA_OPERATOR_KEY_FILE), or use `mnema key create` and `mnema key revoke` on the server."
        )
