"""The page Webhooks: add, test, deliveries, replay, switch off, remove."""

import asyncio
from uuid import UUID

from mnema_client import AsyncMnema
from nicegui import ui
from nicegui.testing import User

from app.bootstrap import Application
from app.domain.principal import Principal
from console.words import DELIVERY_STATES
from tests.console.people import People, press, sees
from tests.factories import Caller, make_caller
from tests.receivers import open_receiver


async def test_a_webhook_is_added_tested_and_removed(person: User, memory: AsyncMnema) -> None:
    async with open_receiver() as receiver:
        await person.open("/webhooks")
        await sees(person, "No webhooks yet")
        person.find("Address (https://…)").type(receiver.url)
        person.find("Only this user").type("maya")
        await press(person, "Add webhook")
        await sees(person, "The secret of the new webhook")
        [shown] = person.find(marker="plain-secret").elements
        assert isinstance(shown, ui.label)
        assert shown.text.startswith("whsec_")
        await press(person, "I have copied it")
        await person.should_not_see(shown.text, retries=50)
        [hook] = (await memory.list_webhooks()).items
        assert (hook.url, hook.user_id, hook.events) == (receiver.url, "maya", [])
        await person.open(f"/webhooks?webhook_id={hook.id}")
        await sees(person, "No deliveries")
        await press(person, "Send a test message")
        await sees(person, "The receiver took the test message")
        assert len(receiver.taken) == 1
        await press(person, "Switch off")
        await sees(person, "Switched off")
        assert not (await memory.get_webhook(hook.id)).enabled
        await press(person, "Switch on")
        await sees(person, "Switched on")
        await press(person, "Remove")
        await sees(person, "Remove this webhook?")
        person.find(marker="confirm").click()
        await sees(person, "Removed")
        assert not (await memory.list_webhooks()).items


async def test_deliveries_are_shown_and_replayed(
    person: User, memory: AsyncMnema, app: Application, caller: Caller
) -> None:
    async with open_receiver() as receiver:
        made = await memory.create_webhook(receiver.url)
        await memory.remember("Maya fixes the roof.", user_id="maya", category="tasks")
        await serve_until(app, caller, made.id, lambda: len(receiver.taken) == 1)
        await person.open(f"/webhooks?webhook_id={made.id}")
        await sees(person, DELIVERY_STATES["delivered"].text)
        await sees(person, "created")
        await press(person, "Replay")
        await sees(person, "It is sent again soon")
        await serve_until(app, caller, made.id, lambda: len(receiver.taken) == 2)


async def test_a_receiver_that_is_away_is_explained(person: User, memory: AsyncMnema) -> None:
    made = await memory.create_webhook("http://127.0.0.1:9/nobody")
    await person.open(f"/webhooks?webhook_id={made.id}")
    await press(person, "Send a test message")
    await sees(person, "The receiver did not take the test message")


async def test_a_refused_address_is_explained(person: User, memory: AsyncMnema) -> None:
    await person.open("/webhooks")
    await press(person, "Add webhook")
    await sees(person, "Give the address of the receiver.")
    person.find("Address (https://…)").type("ftp://127.0.0.1/x")
    await press(person, "Add webhook")
    await sees(person, "The request is not valid")
    assert not (await memory.list_webhooks()).items


async def test_a_key_without_admin_sees_no_webhooks(app: Application, people: People, caller: Caller) -> None:
    reader = await people.sign_in((await make_caller(app, ["query"], None, caller)).key)
    await reader.open("/webhooks")
    await sees(reader, "Your key may not see webhooks: it has no scope admin.")


async def serve_until(app: Application, caller: Caller, webhook_id: UUID, is_done: object) -> None:
    """Serve the webhook as a worker does, until it is done."""
    assert callable(is_done)
    principal = Principal(caller.scope.tenant_id)
    for _poll in range(200):
        async with app.parts.uow.write(principal) as tx:
            await tx.execute("UPDATE webhooks SET due_at = now() WHERE tenant_id = $1", principal.tenant_id)
        await app.webhooks.deliver.serve_webhook(principal, webhook_id)
        if is_done():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the receiver did not take the message")
