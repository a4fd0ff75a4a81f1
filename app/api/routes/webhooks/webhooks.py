"""Routes of /webhooks. They need scope `admin` and a key that is bound to no agent."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from mnema_wire.fields import Limit
from mnema_wire.webhooks import (
    NewSecret,
    NewWebhook,
    Replayed,
    Webhook,
    WebhookChanges,
    WebhookDelivery,
    WebhookDeliveryPage,
    WebhookList,
    WebhookSecret,
    WebhookTest,
)

from app.api import links
from app.api.deps import Administrator, App
from app.api.errors import openapi_errors
from app.api.schemas.webhooks.webhooks import secret_body, to_choice, to_edit, webhook_body
from app.api.transport.parameters import StrictRoute
from app.domain.webhooks.webhook import DeliveryState

router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=StrictRoute)


@router.post(
    "",
    status_code=201,
    response_model=WebhookSecret,
    responses={201: {"links": links.WEBHOOK}, **openapi_errors(400, 401, 403, 413, 422, 503)},
)
async def create(app: App, principal: Administrator, body: NewWebhook) -> WebhookSecret:
    """Make a webhook. The answer shows its secret once."""
    made = await app.webhooks.manage.create_webhook(principal, body.url, to_choice(body), body.secret)
    return secret_body(made)


@router.get(
    "",
    response_model=WebhookList,
    responses={200: {"links": links.WEBHOOKS}, **openapi_errors(401, 403, 422, 503)},
)
async def listed(app: App, principal: Administrator) -> WebhookList:
    """List all webhooks, the oldest first."""
    return WebhookList(items=[webhook_body(one) for one in await app.webhooks.manage.list_webhooks(principal)])


@router.get(
    "/{webhook_id:uuid}",
    response_model=Webhook,
    responses={200: {"links": links.WEBHOOK}, **openapi_errors(401, 403, 404, 422, 503)},
)
async def get(app: App, principal: Administrator, webhook_id: UUID) -> Webhook:
    """Return one webhook."""
    return webhook_body(await app.webhooks.manage.get_webhook(principal, webhook_id))


@router.patch(
    "/{webhook_id:uuid}",
    response_model=Webhook,
    responses={200: {"links": links.WEBHOOK}, **openapi_errors(400, 401, 403, 404, 413, 422, 503)},
)
async def change(app: App, principal: Administrator, webhook_id: UUID, body: WebhookChanges) -> Webhook:
    """Change a webhook, or disable and enable it. What waits goes to the new URL."""
    return webhook_body(await app.webhooks.manage.change_webhook(principal, webhook_id, to_edit(body)))


@router.delete("/{webhook_id:uuid}", status_code=204, responses={**openapi_errors(401, 403, 404, 422, 503)})
async def delete(app: App, principal: Administrator, webhook_id: UUID) -> None:
    """Delete a webhook with its deliveries."""
    await app.webhooks.manage.delete_webhook(principal, webhook_id)


@router.post(
    "/{webhook_id:uuid}/secret",
    response_model=WebhookSecret,
    responses={200: {"links": links.WEBHOOK}, **openapi_errors(400, 401, 403, 404, 413, 422, 503)},
)
async def rotate(app: App, principal: Administrator, webhook_id: UUID, body: NewSecret) -> WebhookSecret:
    """Give a webhook another secret. For a day, messages have a signature of the former one too."""
    return secret_body(await app.webhooks.manage.rotate_secret(principal, webhook_id, body.secret))


@router.post(
    "/{webhook_id:uuid}/test",
    response_model=WebhookTest,
    responses={**openapi_errors(401, 403, 404, 422, 503)},
)
async def test(app: App, principal: Administrator, webhook_id: UUID) -> WebhookTest:
    """Send a message of the type `webhook.test` now, once, and return the result."""
    attempt = await app.webhooks.manage.test_webhook(principal, webhook_id)
    return WebhookTest(status=attempt.status, error=attempt.error, milliseconds=round(attempt.milliseconds, 1))


@router.get(
    "/{webhook_id:uuid}/deliveries",
    response_model=WebhookDeliveryPage,
    responses={200: {"links": links.DELIVERIES}, **openapi_errors(401, 403, 404, 422, 503)},
)
async def deliveries(
    app: App,
    principal: Administrator,
    webhook_id: UUID,
    state: Annotated[DeliveryState | None, Query(description="only deliveries in this state")] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> WebhookDeliveryPage:
    """List the deliveries of a webhook, newest first."""
    page = await app.webhooks.manage.list_deliveries(principal, webhook_id, state, cursor, limit)
    return WebhookDeliveryPage(
        items=[WebhookDelivery.model_validate(one) for one in page.items], next_cursor=page.next_cursor
    )


@router.post(
    "/{webhook_id:uuid}/replay",
    response_model=Replayed,
    responses={**openapi_errors(401, 403, 404, 422, 503)},
)
async def replay_dead(app: App, principal: Administrator, webhook_id: UUID) -> Replayed:
    """Send all dead deliveries of a webhook again."""
    return Replayed(replayed=await app.webhooks.manage.replay_deliveries(principal, webhook_id))


@router.post(
    "/{webhook_id:uuid}/deliveries/{delivery_id:uuid}/replay",
    response_model=Replayed,
    responses={**openapi_errors(401, 403, 404, 422, 503)},
)
async def replay_one(app: App, principal: Administrator, webhook_id: UUID, delivery_id: UUID) -> Replayed:
    """Send a delivery again that was delivered or is dead. It keeps its id."""
    return Replayed(replayed=await app.webhooks.manage.replay_deliveries(principal, webhook_id, delivery_id))
