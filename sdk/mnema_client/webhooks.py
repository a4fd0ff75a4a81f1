"""The calls on webhooks, which need scope `admin`."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import httpx
from mnema_wire.webhooks import (
    NewSecret,
    NewWebhook,
    Replayed,
    Webhook,
    WebhookChanges,
    WebhookDeliveryPage,
    WebhookList,
    WebhookSecret,
    WebhookTest,
)

from mnema_client.calls import JSON, fill_body, json_body, model_reader, path_id, query_params
from mnema_client.requests import encode_body
from mnema_client.transport import Call


def create_webhook(
    url: str,
    *,
    events: Sequence[str] = (),
    categories: Sequence[str] = (),
    user_id: str | None = None,
    where: Mapping[str, Any] | None = None,
    with_memory: bool = False,
    secret: str | None = None,
) -> Call[WebhookSecret]:
    """Make a webhook; `mnema_wire.webhooks.NewWebhook` explains each field. The answer shows its secret once."""
    content = json_body(
        NewWebhook,
        url=url,
        events=list(events),
        categories=list(categories),
        user_id=user_id,
        where=where,
        with_memory=with_memory,
        secret=secret,
    )
    return Call("POST", "/webhooks", model_reader(WebhookSecret), content=content, headers=JSON, repeatable=False)


def list_webhooks() -> Call[WebhookList]:
    """Return all webhooks."""
    return Call("GET", "/webhooks", model_reader(WebhookList))


def get_webhook(webhook_id: UUID | str) -> Call[Webhook]:
    """Return a webhook. Raise NotFound."""
    return Call("GET", _path(webhook_id), model_reader(Webhook))


def change_webhook(webhook_id: UUID | str, **fields: Any) -> Call[Webhook]:
    """Change the named fields of `mnema_wire.webhooks.WebhookChanges`, such as `enabled`.

    `user_id=None` means all users again, `where=None` any memory.
    """
    content = encode_body(fill_body(WebhookChanges, fields))
    return Call("PATCH", _path(webhook_id), model_reader(Webhook), content=content, headers=JSON)


def rotate_webhook_secret(webhook_id: UUID | str, secret: str | None = None) -> Call[WebhookSecret]:
    """Give a webhook another secret. For a day, messages are signed with the former one too."""
    content = json_body(NewSecret, secret=secret)
    path = f"{_path(webhook_id)}/secret"
    return Call("POST", path, model_reader(WebhookSecret), content=content, headers=JSON, repeatable=False)


def delete_webhook(webhook_id: UUID | str) -> Call[None]:
    """Delete a webhook with its deliveries."""
    return Call("DELETE", _path(webhook_id), _read_nothing, repeatable=False)


def test_webhook(webhook_id: UUID | str) -> Call[WebhookTest]:
    """Send a message of the type `webhook.test` now, and return the result."""
    return Call("POST", f"{_path(webhook_id)}/test", model_reader(WebhookTest))


def webhook_deliveries(
    webhook_id: UUID | str, *, state: str | None = None, cursor: str | None = None, limit: int | None = None
) -> Call[WebhookDeliveryPage]:
    """Return a page of deliveries, newest first. `state`: pending, delivered or dead."""
    params = query_params(state=state, cursor=cursor, limit=limit)
    return Call("GET", f"{_path(webhook_id)}/deliveries", model_reader(WebhookDeliveryPage), params)


def replay_webhook(webhook_id: UUID | str, delivery_id: UUID | str | None = None) -> Call[Replayed]:
    """Send a delivery again, or all dead ones."""
    one = "" if delivery_id is None else f"/deliveries/{path_id(delivery_id)}"
    return Call("POST", f"{_path(webhook_id)}{one}/replay", model_reader(Replayed), repeatable=False)


def _path(webhook_id: UUID | str) -> str:
    return f"/webhooks/{path_id(webhook_id)}"


def _read_nothing(_response: httpx.Response) -> None:
    return None
