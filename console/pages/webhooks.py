"""The page Webhooks: receivers of changes, a test message, and the deliveries of each."""

from mnema_wire.bases import Page
from mnema_wire.memory import CHANGES as CHANGE_NAMES
from mnema_wire.webhooks import Webhook, WebhookSecret
from nicegui import ui

from console.context import PageContext
from console.pages.webhook import WebhookView
from console.widgets.announce import Announcer
from console.widgets.keyset import KeysetList, cut_page
from console.widgets.section import heading
from console.widgets.states import show_note
from console.widgets.text import show_chips, show_line, show_link, show_text
from console.words import CHANGES, name_word

PAGE_ITEMS = 25
LONGEST_URL = 2048
LONGEST_ID = 100
LONGEST_NAME = 200


def show(page: PageContext) -> None:
    """Show the webhook in the address, or the list."""
    if not page.key.allows("admin"):
        show_note("Your key may not see webhooks: it has no scope admin.", "warning")
    elif webhook_id := page.params.get("webhook_id", "")[:LONGEST_ID]:
        WebhookView(page, webhook_id)
    else:
        WebhooksView(page)


class WebhooksView:
    """The webhooks, and the form that adds one."""

    def __init__(self, page: PageContext) -> None:
        self._page = page
        self._state = Announcer()
        self._shown_once = ui.element("div").classes("stack")
        with ui.element("section").classes("section").props("aria-label=Webhooks"):
            heading("Receivers of changes")
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Address": lambda hook: show_link(hook.url, "/webhooks", webhook_id=str(hook.id)),
                    "Changes": lambda hook: show_line(name_changes(hook.events), 200),
                    "Categories": lambda hook: show_chips(hook.categories or ["all"]),
                    "State": show_webhook_state,
                    "Waiting": lambda hook: ui.label(f"{hook.pending:,}").classes("number"),
                    "Failed for good": lambda hook: ui.label(f"{hook.dead:,}").classes("number"),
                },
                label="Webhooks",
                empty=("No webhooks yet", "Add one below. It gets a signed message for each change from then on."),
            )
        self._build_form()

    def _build_form(self) -> None:
        with ui.element("section").classes("section").props('aria-label="Add a webhook"'):
            heading("Add a webhook")
            self._url = ui.input("Address (https://…)").classes("wide")
            self._url.props(f"dense outlined autocomplete=off maxlength={LONGEST_URL}")
            self._url.on("keydown.enter", self._create)
            with ui.element("div").classes("filters"):
                self._events = ui.select(
                    {name: name_word(CHANGES, name) for name in CHANGE_NAMES},
                    label="Changes (none: all)",
                    multiple=True,
                ).props("dense outlined use-chips")
                self._categories = ui.input("Categories, separated by commas (empty: all)")
                self._categories.props("dense outlined autocomplete=off")
                self._user = ui.input("Only this user (empty: all)")
                self._user.props(f"dense outlined autocomplete=off maxlength={LONGEST_NAME}")
            with ui.element("div").classes("row"):
                self._with_memory = ui.checkbox("Messages contain the memory itself")
            with ui.element("div").classes("row"):
                ui.button("Add webhook", on_click=self._create)

    async def _fetch(self, cursor: str | None) -> Page[Webhook]:
        found = await self._page.memory.list_webhooks()
        return cut_page(found.items, cursor, PAGE_ITEMS)

    async def _create(self) -> None:
        if not self._url.value.strip():
            ui.notify("Give the address of the receiver.", type="warning")
            return
        call = self._page.memory.create_webhook(
            self._url.value.strip(),
            events=list(self._events.value),
            categories=[name.strip() for name in self._categories.value.split(",") if name.strip()],
            user_id=self._user.value.strip() or None,
            with_memory=self._with_memory.value,
        )
        made = await self._page.attempt(call, "Added")
        if made is not None:
            self._show_secret(made)
            self._url.set_value("")
            await self._list.refresh()

    def _show_secret(self, made: WebhookSecret) -> None:
        self._shown_once.clear()
        with self._shown_once, ui.element("section").classes("section").props('aria-label="The secret"'):
            heading("The secret of the new webhook")
            show_note("Copy it now: it is shown only once. The receiver verifies signatures with it.", "warning")
            show_text(made.secret, "code block").mark("plain-secret")
            with ui.element("div").classes("row"):
                ui.button("I have copied it", on_click=self._shown_once.clear)
        self._state.say("The secret of the new webhook is shown above the list. Copy it now.")


def name_changes(events: list[str]) -> str:
    """Return the changes that a webhook hears of, in words."""
    return ", ".join(name_word(CHANGES, name) for name in events) or "all"


def show_webhook_state(hook: Webhook) -> None:
    """Show whether a webhook is on, and why Mnema switched it off."""
    if hook.enabled:
        ui.label("on").classes("chip good")
    else:
        ui.label("off" if hook.reason is None else "off: the receiver is gone").classes("chip warn")
