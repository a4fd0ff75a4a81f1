"""Webhooks: signed messages for changes, at least once, whatever the receiver does."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from app.bootstrap import Application
from app.bootstrap.upstreams import build_key_cipher
from app.domain.principal import Principal
from app.storage.webhooks.webhooks import WebhookStorage
from tests.api.calls import refused, remember
from tests.conftest import Database
from tests.factories import Caller
from tests.receivers import RESETS, Message, Receiver, open_receiver

POLLS = 200
ROOT = Path(__file__).resolve().parents[3]


async def make_webhook(http: httpx.AsyncClient, receiver: Receiver, **fields: Any) -> dict[str, Any]:
    """Make a webhook and return it with its secret."""
    response = await http.post("/webhooks", json={"url": receiver.url, **fields})
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


async def serve(app: Application, caller: Caller, made: dict[str, Any]) -> None:
    """Serve the webhook once, as a worker does: what waits is due now."""
    principal = Principal(caller.scope.tenant_id)
    async with app.parts.uow.write(principal) as tx:
        await tx.execute("UPDATE webhooks SET due_at = now() WHERE tenant_id = $1", principal.tenant_id)
        await tx.execute("UPDATE webhook_deliveries SET next_attempt = now() WHERE tenant_id = $1", principal.tenant_id)
    await app.webhooks.deliver.serve_webhook(principal, UUID(made["id"]))


async def serve_until(app: Application, caller: Caller, made: dict[str, Any], receiver: Receiver, count: int) -> None:
    """Serve the webhook until it took `count` messages: a transaction of another test may hide a change."""
    for _poll in range(POLLS):
        await serve(app, caller, made)
        if len(receiver.taken) >= count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{len(receiver.taken)} of {count} messages")


def verified(secret: str, message: Message) -> dict[str, Any]:
    """Return the content of a message whose signature the reference library accepts."""
    content: dict[str, Any] = Webhook(secret).verify(message.body, message.headers)
    return content


async def test_a_change_becomes_a_signed_message_with_ids_and_no_text(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    async with open_receiver() as receiver:
        made = await make_webhook(http, receiver, events=["ADD"], categories=["tasks"], user_id="maya")
        written = await remember(http, "Maya fixes the roof.", category="tasks")
        await remember(http, "Ben paints.", user_id="ben", category="tasks")
        await remember(http, "Maya likes tea.", category="preferences")
        await serve_until(app, caller, made, receiver, 1)
        [message] = receiver.taken
        content = verified(made["secret"], message)
        assert (content["type"], content["data"]["memory_id"]) == ("memory.add", written["id"])
        assert b"roof" not in message.body
        shown = json.loads(
            (ROOT / "docs/changes.md").read_text(encoding="utf-8").partition("```json\n")[2].partition("```")[0]
        )
        assert (list(shown), list(shown["data"])) == (list(content), list(content["data"]))
        with pytest.raises(WebhookVerificationError):
            Webhook(made["secret"]).verify(message.body + b" ", message.headers)
        [delivery] = (await http.get(f"/webhooks/{made['id']}/deliveries")).json()["items"]
        assert (delivery["state"], delivery["attempts"], delivery["status"]) == ("delivered", 1, 204)
        assert message.headers["webhook-id"] == f"msg_{UUID(delivery['id']).hex}"


async def test_a_memory_that_left_the_webhooks_categories_is_not_sent(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    async with open_receiver() as receiver:
        made = await make_webhook(http, receiver, categories=["tasks"], with_memory=True)
        written = await remember(http, "Maya fixes the roof.", category="tasks")
        moved = {"category": "preferences", "text": "Maya keeps a secret."}
        assert (await http.patch("/memory/" + written["id"], json=moved)).status_code == 200
        await serve_until(app, caller, made, receiver, 1)
        [message] = receiver.taken
        data = verified(made["secret"], message)["data"]
        assert (data["memory_id"], data["category"], data["memory"]) == (written["id"], "tasks", None)


async def test_a_change_of_a_webhook_does_not_take_it_from_its_worker(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    async with open_receiver() as receiver:
        made = await make_webhook(http, receiver)
        principal = Principal(caller.scope.tenant_id)
        storage = WebhookStorage(app.parts.uow, build_key_cipher(app.parts.settings))
        async with app.parts.uow.write(principal) as tx:
            assert await storage.claim_webhook(tx, principal, UUID(made["id"]), 90)
        assert (await http.patch(f"/webhooks/{made['id']}", json={"events": ["ADD"]})).status_code == 200
        async with app.parts.uow.write(principal) as tx:
            assert not await storage.claim_webhook(tx, principal, UUID(made["id"]), 90)


async def test_a_webhook_hears_of_what_its_filter_matches_until_the_filter_is_cleared(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    where = {"and": [{"tags": {"contains": "work"}}, {"metadata.n": {"lt": 1e300}}]}
    async with open_receiver() as receiver:
        made = await make_webhook(http, receiver, events=["ADD"], where=where)
        assert made["where"] == where
        await remember(http, "Maya rows.", metadata={"n": 1})
        told = await remember(http, "Maya fixes the roof.", tags=["work"], metadata={"n": 1})
        await serve_until(app, caller, made, receiver, 1)
        assert [json.loads(message.body)["data"]["memory_id"] for message in receiver.taken] == [told["id"]]
        kept = await http.patch(f"/webhooks/{made['id']}", json={"enabled": True})
        assert kept.json()["where"] == where
        cleared = await http.patch(f"/webhooks/{made['id']}", json={"where": None})
        assert cleared.json()["where"] is None
        after = await remember(http, "Ben paints.")
        await serve_until(app, caller, made, receiver, 2)
        assert json.loads(receiver.taken[-1].body)["data"]["memory_id"] == after["id"]


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ({"importanse": 3}, "where.importanse: unknown field; did you mean 'importance'?"),
        ({"not": {"user_id": "maya"}}, "where.not.user_id: unknown field; "),
        ({"or": [{"text": "é" * 1000} for _ in range(9)]}, "where: at most 16384 bytes as JSON"),
    ],
)
async def test_a_wrong_filter_of_a_webhook_is_refused(
    http: httpx.AsyncClient, where: dict[str, Any], problem: str
) -> None:
    made = (await http.post("/webhooks", json={"url": "http://127.0.0.1:1"})).json()
    for response in (
        await http.post("/webhooks", json={"url": "http://127.0.0.1:1", "where": where}),
        await http.patch(f"/webhooks/{made['id']}", json={"where": where}),
    ):
        refused(response, 422, "invalid_request")
        assert response.json()["detail"].startswith(problem)


async def test_a_failed_delivery_is_sent_again_with_its_id_and_both_secrets(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    async with open_receiver(500, RESETS, 302, 204) as receiver:
        made = await make_webhook(http, receiver, with_memory=True)
        await remember(http, "Maya fixes the roof.")
        rotated = (await http.post(f"/webhooks/{made['id']}/secret", json={})).json()
        await serve_until(app, caller, made, receiver, 1)
        assert len(receiver.messages) == 4
        assert len({message.headers["webhook-id"] for message in receiver.messages}) == 1
        [message] = receiver.taken
        for secret in (made["secret"], rotated["secret"]):
            assert verified(secret, message)["data"]["memory"]["text"] == "Maya fixes the roof."
        [delivery] = (await http.get(f"/webhooks/{made['id']}/deliveries")).json()["items"]
        assert (delivery["state"], delivery["attempts"]) == ("delivered", 4)


async def test_a_receiver_that_is_gone_is_disabled_and_loses_nothing(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    async with open_receiver(410, 204) as receiver:
        made = await make_webhook(http, receiver)
        await remember(http, "Maya fixes the roof.")
        for _poll in range(POLLS):
            await serve(app, caller, made)
            if (shown := (await http.get(f"/webhooks/{made['id']}")).json())["pending"]:
                break
            await asyncio.sleep(0.05)
        assert (shown["enabled"], shown["reason"], shown["pending"]) == (False, "gone", 1)
        await serve(app, caller, made)
        assert len(receiver.messages) == 1
        await http.patch(f"/webhooks/{made['id']}", json={"enabled": True})
        await serve_until(app, caller, made, receiver, 1)


async def test_a_dead_delivery_is_replayed(
    http: httpx.AsyncClient, app: Application, caller: Caller, database: Database
) -> None:
    async with open_receiver(500) as receiver:
        made = await make_webhook(http, receiver)
        await remember(http, "Maya fixes the roof.")
        for _poll in range(POLLS):
            await serve(app, caller, made)
            if (await http.get(f"/webhooks/{made['id']}")).json()["dead"]:
                break
        [dead] = (await http.get(f"/webhooks/{made['id']}/deliveries", params={"state": "dead"})).json()["items"]
        assert (dead["attempts"], dead["error"], dead["status"]) == (11, "refused", 500)
        receiver.answers = [204]
        await serve(app, caller, made)
        assert not receiver.taken
        assert (await http.post(f"/webhooks/{made['id']}/replay")).json() == {"replayed": 1}
        await serve_until(app, caller, made, receiver, 1)
        path = f"/webhooks/{made['id']}/deliveries/{dead['id']}/replay"
        assert (await http.post(path)).json() == {"replayed": 1}
        refused(await http.post(path), 404, "not_found")


async def test_an_erasure_empties_what_waits(
    http: httpx.AsyncClient, app: Application, caller: Caller, database: Database
) -> None:
    async with open_receiver(500) as receiver:
        made = await make_webhook(http, receiver, with_memory=True)
        await remember(http, "Maya fixes the roof.")
        for _poll in range(POLLS):
            await serve(app, caller, made)
            if receiver.messages:
                break
            await asyncio.sleep(0.05)
        receiver.answers = [204]
        await http.post("/users/maya/erase")
        await serve_until(app, caller, made, receiver, 1)
        contents = [json.loads(message.body) for message in receiver.taken]
        assert {(c["type"], c["data"]["user_id"], c["data"]["memory"]) for c in contents} == {
            ("memory.purge", None, None)
        }
        connection = await asyncpg.connect(database.superuser)
        try:
            held = "SELECT count(*) FROM webhook_deliveries WHERE tenant_id = $1 AND user_id = 'maya'"
            assert await connection.fetchval(held, caller.scope.tenant_id) == 0
            secret = await connection.fetchval(
                "SELECT secret FROM webhooks WHERE tenant_id = $1", caller.scope.tenant_id
            )
            assert made["secret"].encode() not in secret
        finally:
            await connection.close()


async def test_a_test_message_tells_what_the_receiver_said(http: httpx.AsyncClient) -> None:
    async with open_receiver(204, 302, RESETS) as receiver:
        made = await make_webhook(http, receiver)
        results = [(await http.post(f"/webhooks/{made['id']}/test")).json() for _ in range(3)]
        taken, redirected, broken = [(result["status"], result["error"]) for result in results]
        assert (taken, redirected) == ((204, None), (None, "refused_answer"))
        assert broken in ((None, "broken"), (None, "unreachable"))
        assert verified(made["secret"], receiver.taken[0])["type"] == "webhook.test"


@pytest.mark.parametrize(
    "url", ["ftp://1.1.1.1/", "http://169.254.169.254/latest", "http://a:b@1.1.1.1/", "x", "http://[fe80::1]/"]
)
async def test_addresses_are_guarded_as_those_of_chat_endpoints(http: httpx.AsyncClient, url: str) -> None:
    refused(await http.post("/webhooks", json={"url": url}), 422, "webhook_not_allowed")


async def test_wrong_secrets_and_categories_are_refused(http: httpx.AsyncClient) -> None:
    for secret in ("x", "whsec_x", "whsec_AAAA"):
        refused(await http.post("/webhooks", json={"url": "http://1.1.1.1", "secret": secret}), 422, "invalid_request")
    body = {"url": "http://1.1.1.1", "categories": ["nosuch"]}
    refused(await http.post("/webhooks", json=body), 422, "unknown_category")
