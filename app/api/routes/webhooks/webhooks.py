"""Routes of /webhooks. They need scope `admin` and a key that is bound to no agent."""

import json
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from mnema_wire import webhooks as wire
from mnema_wire.fields import Limit

from app.api import links
from app.api.deps import Administrator, App
from app.api.errors import body_errors, key_errors
from app.api.transport.parameters import StrictRoute
from app.domain.webhooks.webhook import DeliveryState, SecretWebhook, Webhook, WebhookChoice, WebhookEdit, check_where

router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=StrictRoute)


def to_choice(body: wire.NewWebhook) -> WebhookChoice:
    """Return the changes that a new webhook sends."""
    return WebhookChoice(
        events=_distinct(body.events),
        categories=_distinct(body.categories),
        user_id=body.user_id,
        where=check_where(body.where),
        with_memory=body.with_memory,
    )


def to_edit(body: wire.WebhookChanges) -> WebhookEdit:
    """Return the fields that the body names."""
    named = body.model_dump(include=body.model_fields_set)
    for name in ("events", "categories"):
        if name in named:
            named[name] = _distinct(named[name])
    cleared = tuple(name for name, value in named.items() if value is None)
    return WebhookEdit(**named | {"where": check_where(body.where)}, cleared=cleared)


def webhook_body(webhook: Webhook) -> wire.Webhook:
    """Return the body of a webhook."""
    return wire.Webhook(**_fields(webhook))


def secret_body(made: SecretWebhook) -> wire.WebhookSecret:
    """Return the body of a webhook with its secret."""
    return wire.WebhookSecret(**_fields(made.webhook), secret=made.secret)


def _fields(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": list(webhook.choice.events),
        "categories": list(webhook.choice.categories),
        "user_id": webhook.choice.user_id,
        "where": None if webhook.choice.where is None else json.loads(webhook.choice.where),
        "with_memory": webhook.choice.with_memory,
        "enabled": webhook.enabled,
        "reason": webhook.reason,
        "pending": webhook.pending,
        "dead": webhook.dead,
        "created_at": webhook.created_at,
        "updated_at": webhook.updated_at,
    }


def _distinct(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


@router.post("", status_code=201, responses={201: {"links": links.WEBHOOK}, **body_errors()})
async def create(app: App, principal: Administrator, body: wire.NewWebhook) -> wire.WebhookSecret:
    """Make a webhook. The answer shows its secret once."""
    made = await app.webhooks.manage.create_webhook(principal, body.url, to_choice(body), body.secret)
    return secret_body(made)


@router.get("", responses={200: {"links": links.WEBHOOKS}, **key_errors()})
async def listed(app: App, principal: Administrator) -> wire.WebhookList:
    """List all webhooks, the oldest first."""
    return wire.WebhookList(items=[webhook_body(one) for one in await app.webhooks.manage.list_webhooks(principal)])


@router.get("/{webhook_id:uuid}", responses={200: {"links": links.WEBHOOK}, **key_errors(404)})
async def get(app: App, principal: Administrator, webhook_id: UUID) -> wire.Webhook:
    """Return one webhook."""
    return webhook_body(await app.webhooks.manage.get_webhook(principal, webhook_id))


@router.patch("/{webhook_id:uuid}", responses={200: {"links": links.WEBHOOK}, **body_errors(404)})
async def change(app: App, principal: Administrator, webhook_id: UUID, body: wire.WebhookChanges) -> wire.Webhook:
    """Change a webhook, or disable and enable it. What waits goes to the new URL."""
    return webhook_body(await app.webhooks.manage.change_webhook(principal, webhook_id, to_edit(body)))


@router.delete("/{webhook_id:uuid}", status_code=204, responses={**key_errors(404)})
async def delete(app: App, principal: Administrator, webhook_id: UUID) -> None:
    """Delete a webhook with its deliveries."""
    await app.webhooks.manage.delete_webhook(principal, webhook_id)


@router.post("/{webhook_id:uuid}/secret", responses={200: {"links": links.WEBHOOK}, **body_errors(404)})
async def rotate(app: App, principal: Administrator, webhook_id: UUID, body: wire.NewSecret) -> wire.WebhookSecret:
    """Give a webhook another secret. For a day, messages have a signature of the former one too."""
    return secret_body(await app.webhooks.manage.rotate_secret(principal, webhook_id, body.secret))


@router.post("/{webhook_id:uuid}/test", responses={**key_errors(404)})
async def test(app: App, principal: Administrator, webhook_id: UUID) -> wire.WebhookTest:
    """Send a message of the type `webhook.test` now, once, and return the result."""
    attempt = await app.webhooks.manage.test_webhook(principal, webhook_id)
    return wire.WebhookTest(status=attempt.status, error=attempt.error, milliseconds=round(attempt.milliseconds, 1))


@router.get("/{webhook_id:uuid}/deliveries", responses={200: {"links": links.DELIVERIES}, **key_errors(404)})
async def deliveries(
    app: App,
    principal: Administrator,
    webhook_id: UUID,
    state: Annotated[DeliveryState | None, Query(description="only deliveries in this state")] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> wire.WebhookDeliveryPage:
    """List the deliveries of a webhook, newest first."""
    page = await app.webhooks.manage.list_deliveries(principal, webhook_id, state, cursor, limit)
    return wire.WebhookDeliveryPage(
        items=[wire.WebhookDelivery.model_validate(one) for one in page.items], next_cursor=page.next_cursor
    )


@router.post("/{webhook_id:uuid}/replay", responses={**key_errors(404)})
async def replay_dead(app: App, principal: Administrator, webhook_id: UUID) -> wire.Replayed:
    """Send all dead deliveries of a webhook again."""
    return wire.Replayed(replayed=await app.webhooks.manage.replay_deliveries(principal, webhook_id))


@router.post("/{webhook_id:uuid}/deliveries/{delivery_id:uuid}/replay", responses={**key_errors(404)})
async def replay_one(app: App, principal: Administrator, webhook_id: UUID, delivery_id: UUID) -> wire.Replayed:
    """Send a delivery again that was delivered or is dead. It keeps its id."""
    return wire.Replayed(replayed=await app.webhooks.manage.replay_deliveries(principal, webhook_id, delivery_id))
