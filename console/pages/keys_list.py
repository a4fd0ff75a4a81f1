"""A list of API keys with revocation, and the form that creates one: of the tenant itself, or for the operator."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol, get_args
from uuid import UUID

from mnema_wire.bases import Page
from mnema_wire.operator import ApiKey, CreatedKey, Scope
from nicegui import ui

from console.context import PageContext
from console.session import read_clock
from console.times import format_time
from console.widgets.announce import Announcer
from console.widgets.confirm import ask_confirmation
from console.widgets.days import read_end_of_day
from console.widgets.keyset import KeysetList
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import show_chips, show_id, show_line, show_text, show_time

LONGEST_NAME = 200
SCOPES = {
    "query": "read memories, facts, sources and headers",
    "write": "write, edit and delete memories",
    "chat": "chat with memory",
    "approve": "decide about consent",
    "read_all": "read the memories of all users at once",
    "admin": "everything, with jobs, rules, keys, webhooks, export and erasure",
}
"""The meaning of each scope."""


class CreateKey(Protocol):
    """A call that creates a key."""

    def __call__(
        self,
        scopes: Sequence[Scope],
        *,
        name: str | None,
        agents: Sequence[str] | None,
        expires_at: datetime | None,
    ) -> Awaitable[CreatedKey]:
        """Create the key."""


@dataclass(frozen=True)
class KeyCalls:
    """The calls of the API on the keys of one tenant. `own`: the key of the session, if it is among them.

    `create` returns the call; it raises SessionOver if the session has ended.
    """

    fetch: Callable[[str | None], Awaitable[Page[ApiKey]]]
    create: Callable[[], CreateKey]
    revoke: Callable[[UUID], Awaitable[None]]
    own: UUID | None = None


class KeysView:
    """The keys of a tenant, and the form that creates one."""

    def __init__(self, page: PageContext, calls: KeyCalls) -> None:
        self._page = page
        self._calls = calls
        self._state = Announcer()
        self._shown_once = ui.element("div").classes("stack")
        with ui.element("section").classes("section").props("aria-label=Keys"):
            heading("Keys")
            self._list = KeysetList(
                page,
                calls.fetch,
                {
                    "Key": self._show_key,
                    "Scopes": lambda key: show_chips(key.scopes),
                    "Agents": lambda key: show_chips(key.agents) if key.agents else ui.label("not bound"),
                    "State": _show_key_state,
                    "Created": lambda key: show_time(key.created_at),
                    "Action": self._show_action,
                },
                label="Keys",
                empty=("No keys yet", "Create one below."),
            )
        NewKeyForm(page, calls.create, self._show_new_key)

    def _show_key(self, key: ApiKey) -> None:
        show_line(key.name, 100)
        show_id(f"{key.prefix}…")
        if key.id == self._calls.own:
            ui.label("your key").classes("chip")

    def _show_action(self, key: ApiKey) -> None:
        if key.revoked_at is None:
            button = ui.button("Revoke", color="negative", on_click=partial(self._revoke, key)).props("outline dense")
            button.props["aria-label"] = f"Revoke {key.prefix}…"

    async def _revoke(self, key: ApiKey) -> None:
        consequence = (
            f"Every server refuses the key {key.prefix}… within 5 seconds, also where it is in use now. "
            "A revoked key stays revoked."
        )
        if key.id == self._calls.own:
            consequence += " It is your own key: you are signed out then."
        if await ask_confirmation(f"Revoke the key {key.name}?", consequence, action="Revoke for good"):
            await self._page.attempt(self._calls.revoke(key.id), done="Revoked")
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

    def __init__(
        self, page: PageContext, create: Callable[[], CreateKey], on_created: Callable[[CreatedKey], Awaitable[None]]
    ) -> None:
        self._page = page
        self._create_key = create
        self._on_created = on_created
        with ui.element("section").classes("section").props('aria-label="Create a key"'):
            heading("Create a key")
            with ui.element("div").classes("filters"):
                self._name = ui.input("Name of the key", value="key")
                self._name.props(f"dense outlined autocomplete=off maxlength={LONGEST_NAME}")
                self._agents = ui.input("Agents, separated by commas (empty: not bound)")
                self._agents.props("dense outlined autocomplete=off")
                self._ends = ui.input("Last day (empty: no end)").props("dense outlined stack-label type=date")
            with ui.element("fieldset").classes("row choices"):
                with ui.element("legend"):
                    ui.label("Scopes")
                self._scopes: dict[Scope, ui.checkbox] = {
                    name: ui.checkbox(name, value=name == "query") for name in get_args(Scope)
                }
            with ui.element("div").classes("row"):
                ui.button("Create key", on_click=self._create)

    async def _create(self) -> None:
        scopes = [name for name, box in self._scopes.items() if box.value]
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
        made = await self._page.attempt(self._create_key()(scopes, name=name, agents=agents, expires_at=ends))
        if made is not None:
            await self._on_created(made)


def _show_key_state(key: ApiKey) -> None:
    if key.revoked_at is not None:
        ui.label("revoked").classes("chip bad")
    elif key.expires_at is not None and key.expires_at <= read_clock():
        ui.label("expired").classes("chip bad")
    else:
        ui.label("valid").classes("chip good")
        if key.expires_at is not None:
            ui.label(f"until {format_time(key.expires_at)}").classes("soft")
