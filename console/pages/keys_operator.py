"""Tenants and their keys, for a person who is signed in with the operator's key."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from mnema_client.operator import key_page, tenant_page
from mnema_wire.bases import Page
from mnema_wire.operator import ApiKey, CreatedKey, Scope, Tenant
from nicegui import ui

from console.context import PageContext
from console.session import read_clock
from console.widgets.announce import Announcer
from console.widgets.confirm import ask_confirmation
from console.widgets.days import read_end_of_day
from console.widgets.keyset import KeysetList
from console.widgets.pairs import show_pairs
from console.widgets.section import Section, heading
from console.widgets.states import show_note
from console.widgets.text import format_time, show_chips, show_id, show_line, show_link, show_text, show_time

PAGE_ITEMS = 25
SCOPES = ("query", "write", "chat", "approve", "read_all", "admin")


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
                self._name = ui.input("Name of the tenant").props("dense outlined autocomplete=off")
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
        self._page = page
        self._id = tenant_id
        show_link("All tenants", "/keys")
        Section(page, lambda: page.operator.get_tenant(tenant_id), _show_tenant, title="Tenant")
        self._state = Announcer()
        self._shown_once = ui.element("div").classes("stack")
        with ui.element("section").classes("section").props("aria-label=Keys"):
            heading("Keys")
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Key": _show_key,
                    "Scopes": lambda key: show_chips(key.scopes),
                    "Agents": lambda key: show_chips(key.agents) if key.agents else ui.label("not bound"),
                    "State": _show_key_state,
                    "Created": lambda key: show_time(key.created_at),
                    "Action": self._show_action,
                },
                label="Keys",
                empty=("No keys yet", "Create one below."),
            )
        NewKeyForm(page, tenant_id, self._show_new_key)

    async def _fetch(self, cursor: str | None) -> Page[ApiKey]:
        return await self._page.operator.send(key_page(self._id, limit=PAGE_ITEMS, cursor=cursor))

    def _show_action(self, key: ApiKey) -> None:
        if key.revoked_at is None:
            ui.button("Revoke", color="negative", on_click=partial(self._revoke, key)).props("outline dense")

    async def _revoke(self, key: ApiKey) -> None:
        consequence = (
            f"Every server refuses the key {key.prefix}… within 5 seconds, also where it is in use now. "
            "A revoked key stays revoked."
        )
        if await ask_confirmation(f"Revoke the key {key.name}?", consequence, action="Revoke for good"):
            await self._page.attempt(self._page.operator.revoke_key(self._id, key.id), done="Revoked")
            await self._list.refresh()

    async def _show_new_key(self, made: CreatedKey) -> None:
        self._shown_once.clear()
        with self._shown_once, ui.element("section").classes("section").props('aria-label="The new key"'):
            heading("The new key")
            show_note("Copy the key now. It is shown only here and only once; nobody can read it again.", "warning")
            show_text(made.key, "code block").mark("plain-key")
            with ui.element("div").classes("row"):
                ui.button("I have copied it", on_click=self._shown_once.clear)
        self._state.say("The new key is shown above the list of keys. Copy it now.")
        await self._list.refresh()


class NewKeyForm:
    """The form that creates a key. `on_created` receives it with its plain text."""

    def __init__(self, page: PageContext, tenant_id: str, on_created: Callable[[CreatedKey], Awaitable[None]]) -> None:
        self._page = page
        self._id = tenant_id
        self._on_created = on_created
        with ui.element("section").classes("section").props('aria-label="Create a key"'):
            heading("Create a key")
            with ui.element("div").classes("filters"):
                self._name = ui.input("Name of the key", value="key").props("dense outlined autocomplete=off")
                self._agents = ui.input("Agents, separated by commas (empty: not bound)")
                self._agents.props("dense outlined autocomplete=off")
                self._ends = ui.input("Last day (empty: no end)").props("dense outlined stack-label type=date")
            with ui.element("fieldset").classes("row choices"):
                with ui.element("legend"):
                    ui.label("Scopes")
                self._scopes = {name: ui.checkbox(name, value=name == "query") for name in SCOPES}
            with ui.element("div").classes("row"):
                ui.button("Create key", on_click=self._create)

    async def _create(self) -> None:
        scopes = [cast(Scope, name) for name, box in self._scopes.items() if box.value]
        if not scopes:
            ui.notify("Choose at least one scope.", type="warning")
            return
        try:
            ends = read_end_of_day(self._ends.value)
        except ValueError:
            ui.notify("The last day is a date such as 2027-01-31.", type="warning")
            return
        agents = [name.strip() for name in self._agents.value.split(",") if name.strip()] or None
        name = self._name.value.strip() or None
        call = self._page.operator.create_key(self._id, scopes, name=name, agents=agents, expires_at=ends)
        made = await self._page.attempt(call)
        if made is not None:
            await self._on_created(made)


def _show_tenant(tenant: Tenant) -> None:
    show_pairs(
        {
            "Name": tenant.name,
            "Identifier": lambda: show_id(tenant.id),
            "Created": format_time(tenant.created_at),
        }
    )


def _show_key(key: ApiKey) -> None:
    show_line(key.name, 100)
    show_id(f"{key.prefix}…")


def _show_key_state(key: ApiKey) -> None:
    if key.revoked_at is not None:
        ui.label("revoked").classes("chip bad")
    elif key.expires_at is not None and key.expires_at <= read_clock():
        ui.label("expired").classes("chip bad")
    else:
        ui.label("valid").classes("chip good")
        if key.expires_at is not None:
            ui.label(f"until {format_time(key.expires_at)}").classes("soft")
