"""One webhook: its choice of changes, a test message, and its deliveries with their states."""

from functools import partial

from mnema_client.webhooks import webhook_deliveries
from mnema_wire.bases import Page
from mnema_wire.webhooks import Webhook, WebhookDelivery
from nicegui import ui

from console.context import PageContext
from console.texts import shorten_text
from console.widgets.confirm import ask_confirmation
from console.widgets.keyset import KeysetList
from console.widgets.pairs import show_pairs
from console.widgets.section import Section, heading
from console.widgets.states import show_note
from console.widgets.text import show_chips, show_id, show_line, show_link, show_time
from console.widgets.words import show_mark, show_word
from console.words import CHANGES, DELIVERY_STATES, name_choices, name_word

PAGE_ITEMS = 25


class WebhookView:
    """The parts of the page; an action loads the ones that it changed again."""

    def __init__(self, page: PageContext, webhook_id: str) -> None:
        self._page = page
        self._id = webhook_id
        show_link("All webhooks", "/webhooks")
        self._card = Section(page, lambda: page.memory.get_webhook(webhook_id), self._show_webhook, title="Receiver")
        with ui.element("section").classes("section").props("aria-label=Deliveries"):
            heading("Deliveries")
            self._state = ui.select(name_choices(DELIVERY_STATES, "All"), label="State", value="")
            self._state.props("dense outlined options-dense").on_value_change(self._refresh_list)
            self._list = KeysetList(
                page,
                self._fetch,
                {
                    "Change": lambda one: show_word(CHANGES, one.event),
                    "Memory": lambda one: show_link(one.memory_id, f"/memories/{one.memory_id}"),
                    "When": lambda one: show_time(one.happened_at),
                    "State": lambda one: show_mark(DELIVERY_STATES, one.state),
                    "Attempts": lambda one: ui.label(str(one.attempts)).classes("number"),
                    "Last answer": _show_result,
                    "Next attempt": _show_next,
                    "Actions": self._show_action,
                },
                label="Deliveries",
                empty=("No deliveries", "One appears for each change that the webhook hears of."),
            )

    async def _refresh_list(self) -> None:
        await self._list.refresh()

    async def _refresh(self) -> None:
        await self._card.refresh()
        await self._list.refresh()

    async def _fetch(self, cursor: str | None) -> Page[WebhookDelivery]:
        call = webhook_deliveries(self._id, state=self._state.value or None, cursor=cursor, limit=PAGE_ITEMS)
        return await self._page.memory.send(call)

    def _show_webhook(self, hook: Webhook) -> None:
        show_pairs(
            {
                "Address": hook.url,
                "State": "on" if hook.enabled else "off",
                "Changes": ", ".join(name_word(CHANGES, name) for name in hook.events) or "all",
                "Categories": partial(show_chips, hook.categories or ["all"]),
                "User": hook.user_id or "all",
                "Messages contain the memory": "yes" if hook.with_memory else "no",
                "Waiting": f"{hook.pending:,}",
                "Failed for good": f"{hook.dead:,}",
                "Identifier": partial(show_id, hook.id),
            }
        )
        if hook.reason is not None:
            show_note("The receiver answered that it is gone, so Mnema switched the webhook off.", "warning")
        with ui.element("div").classes("row"):
            ui.button("Send a test message", on_click=self._test)
            ui.button("Switch off" if hook.enabled else "Switch on", on_click=partial(self._switch, hook)).props(
                "outline"
            )
            if hook.dead:
                ui.button("Replay all that failed", on_click=self._replay_dead).props("outline")
            ui.button("Remove", on_click=partial(self._remove, hook)).props("outline color=negative")
        self._result = ui.element("div").classes("stack").props("aria-live=polite")

    async def _test(self) -> None:
        result = await self._page.attempt(self._page.memory.test_webhook(self._id))
        if result is None or self._result.is_deleted:
            return
        answer = "no answer" if result.status is None else f"status {result.status}"
        self._result.clear()
        with self._result:
            if result.error is None:
                show_note(f"The receiver took the test message: {answer} after {result.milliseconds:.0f} ms.")
            else:
                reason = shorten_text(result.error.replace("_", " "), 80)
                show_note(f"The receiver did not take the test message: {reason}, {answer}.", "warning")

    async def _switch(self, hook: Webhook) -> None:
        done = "Switched off; what waits is kept" if hook.enabled else "Switched on"
        call = self._page.memory.change_webhook(self._id, enabled=not hook.enabled)
        if await self._page.attempt(call, done) is not None:
            await self._card.refresh()

    async def _replay_dead(self) -> None:
        if await self._page.attempt(self._page.memory.replay_webhook(self._id), "They are sent again soon") is not None:
            await self._refresh()

    async def _replay(self, delivery: WebhookDelivery) -> None:
        call = self._page.memory.replay_webhook(self._id, delivery.id)
        if await self._page.attempt(call, "It is sent again soon") is not None:
            await self._refresh()

    async def _remove(self, hook: Webhook) -> None:
        consequence = f"{shorten_text(hook.url)}\nIts deliveries go with it, also those that wait. It cannot be undone."
        if not await ask_confirmation("Remove this webhook?", consequence, action="Remove for good"):
            return

        async def remove() -> bool:
            await self._page.memory.delete_webhook(self._id)
            return True

        if await self._page.attempt(remove(), "Removed"):
            self._page.go_to("/webhooks")

    def _show_action(self, delivery: WebhookDelivery) -> None:
        if delivery.state != "pending":
            button = ui.button("Replay", on_click=partial(self._replay, delivery)).props("outline dense")
            button.props["aria-label"] = f"Replay {name_word(CHANGES, delivery.event)} {str(delivery.id)[:8]}"


def _show_result(delivery: WebhookDelivery) -> None:
    words = [str(delivery.status)] if delivery.status is not None else []
    words += [delivery.error.replace("_", " ")] if delivery.error else []
    show_line(", ".join(words) or "none yet", 80)


def _show_next(delivery: WebhookDelivery) -> None:
    if delivery.state == "pending":
        show_time(delivery.next_attempt)
    else:
        ui.label("none").classes("soft")
