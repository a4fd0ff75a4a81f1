"""The messages that webhooks get."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.memory.memory import Memory
from app.domain.webhooks.signing import sign_headers
from app.domain.webhooks.webhook import Delivery

SHOWN = (
    "id",
    "user_id",
    "thread_id",
    "agent_id",
    "type",
    "category",
    "text",
    "importance",
    "pinned",
    "tags",
    "state",
    "metadata",
    "version",
    "created_at",
    "updated_at",
    "expires_at",
    "valid_from",
    "valid_to",
    "language",
    "origin",
)
"""The fields of a memory that a message has."""


def change_message(delivery: Delivery, memory: Memory | None, *, with_memory: bool) -> bytes:
    """Return the message of a change. `memory`: the memory as it is now, None if it is gone."""
    data: dict[str, Any] = {
        "event": delivery.event,
        "memory_id": delivery.memory_id,
        "category": delivery.category,
        "type": delivery.type,
        "user_id": delivery.user_id,
        "version": delivery.version,
        "time": delivery.happened_at,
    }
    if with_memory:
        data["memory"] = None if memory is None else {name: getattr(memory, name) for name in SHOWN}
    return _encode(f"memory.{delivery.event.lower()}", delivery.happened_at, data)


def test_message(webhook_id: UUID, now: datetime) -> bytes:
    """Return the message of a test."""
    return _encode("webhook.test", now, {"webhook_id": webhook_id})


def sign_message(message_id: UUID, now: datetime, body: bytes, secrets: Sequence[str]) -> list[tuple[str, str]]:
    """Return the headers of a message. Each attempt has the same id and a time of its own."""
    return sign_headers(f"msg_{message_id.hex}", int(now.timestamp()), body, secrets)


def _encode(kind: str, moment: datetime, data: dict[str, Any]) -> bytes:
    message = {"type": kind, "timestamp": moment, "data": data}
    return json.dumps(message, default=_as_text, ensure_ascii=False, separators=(",", ":")).encode()


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
