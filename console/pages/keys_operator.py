"""Tenants and their keys, for a person who is signed in with the operator's key."""

from functools import partial

from mnema_client.operator import key_page, tenant_page
from mnema_wire.bases import Page
from mnema_wire.operator import Tenant
from nicegui import ui

from console.context import PageContext
from console.pages.keys_list import KeyCalls, KeysView
from console.times import format_time
from console.widgets.keyset import KeysetList
from console.widgets.pairs import show_pairs
from console.widgets.section import Section, heading
from console.widgets.text import show_id, show_link, show_time

PAGE_ITEMS = 25
LONGEST_NAME = 200


class TenantsView:
    """The tenants, and the form that creates one."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        with ui.element("section").classes("section").props("aria-label=Tenants"):
            heading("Tenants")
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Tenant": lambda tenant: show_link(tenant.name, "/keys", tenant_id=str(tenant.id)),
                    "Identifier": lambda tenant: show_id(tenant.id),
                    "Created": lambda tenant: show_time(tenant.created_at),
                },
                label="Tenants",
                empty=("No tenants yet", "Create one below."),
            )
        with ui.element("section").classes("section").props('aria-label="Create a tenant"'):
            heading("Create a tenant")
            with ui.element("div").classes("filters"):
                self._name = ui.input("Name of the tenant")
                self._name.props(f"dense outlined autocomplete=off maxlength={LONGEST_NAME}")
                self._name.on("keydown.enter", self._create)
            with ui.element("div").classes("row"):
                ui.button("Create tenant", on_click=self._create)

    async def _fetch(self, cursor: str | None) -> Page[Tenant]:
        return await self._page.operator.send(tenant_page(limit=PAGE_ITEMS, cursor=cursor))

    async def _create(self) -> None:
        if not self._name.value.strip():
            ui.notify("Give the tenant a name.", type="warning")
            return
        made = await self._page.attempt(self._page.operator.create_tenant(self._name.value.strip()))
        if made is not None:
            self._page.go_to("/keys", tenant_id=str(made.id))


class TenantView:
    """One tenant with its keys."""

    def __init__(self, page: PageContext, tenant_id: str) -> None:
        show_link("All tenants", "/keys")
        Section(page, lambda: page.operator.get_tenant(tenant_id), _show_tenant, title="Tenant")
        calls = KeyCalls(
            fetch=lambda cursor: page.operator.send(key_page(tenant_id, limit=PAGE_ITEMS, cursor=cursor)),
            create=lambda: partial(page.operator.create_key, tenant_id),
            revoke=lambda key_id: page.operator.revoke_key(tenant_id, key_id),
        )
        KeysView(page, calls)


def _show_tenant(tenant: Tenant) -> None:
    show_pairs(
        {
            "Name": tenant.name,
            "Identifier": lambda: show_id(tenant.id),
            "Created": format_time(tenant.created_at),
        }
    )
