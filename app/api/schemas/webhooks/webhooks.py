"""Conversions between the bodies of /webhooks and the domain."""

import json
from typing import Any

from mnema_wire import webhooks as wire

from app.domain.webhooks.webhook import SecretWebhook, Webhook, WebhookChoice, WebhookEdit, check_where


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
