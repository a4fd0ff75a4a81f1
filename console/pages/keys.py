"""The page Keys: the person's own key and the tenant's others; for the operator, the tenants and their keys."""

from mnema_client import api_keys
from nicegui import ui

from console.context import PageContext
from console.keys import PersonKey
from console.pages.keys_list import SCOPES, KeyCalls, KeysView
from console.pages.keys_operator import TenantsView, TenantView
from console.times import format_time
from console.widgets.pairs import show_pairs
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import show_chips, show_id

LONGEST_ID = 100
PAGE_ITEMS = 25


def show(page: PageContext) -> None:
    """Show the page."""
    if not page.key.is_operator:
        _show_own_key(page.key)
        _show_other_keys(page)
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


def _show_other_keys(page: PageContext) -> None:
    if not page.key.allows("admin"):
        with ui.element("section").classes("section").props('aria-label="Other keys"'):
            heading("Other keys")
            show_note("Your key may not see other keys: it has no scope admin.")
        return
    calls = KeyCalls(
        fetch=lambda cursor: page.memory.send(api_keys.key_page(limit=PAGE_ITEMS, cursor=cursor)),
        create=lambda: page.memory.create_key,
        revoke=lambda key_id: page.memory.revoke_key(key_id),
        own=page.key.key_id,
    )
    show_note("A key that you create may do no more than yours, and ends no later.")
    KeysView(page, calls)
