"""Webhooks and their deliveries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from mnema_wire.limits import MAX_JSON_BYTES

from app.domain.errors import InvalidInput
from app.domain.where.parsing import parse_where, read_where
from app.domain.where.tree import FIELDS, Kind, Node

MAX_WEBHOOKS: Final = 50
"""Webhooks of a tenant."""
RETRIES_S: Final = (5, 60, 300, 1800, 7200, 18000, 36000, 50400, 64800, 79200)
"""Seconds after each failed attempt until the next one. They add up to three days."""
WHERE_FIELDS: Final[Mapping[str, Kind]] = {name: kind for name, kind in FIELDS.items() if name != "user_id"}
"""The fields that `where` of a webhook knows: an erasure finds a user only in the webhook's own field."""
FORMER_SECRET_S: Final = 86_400
"""Seconds for which the former secret signs too after a rotation."""


class DeliveryState(StrEnum):
    """The states of a delivery. A dead one has used all its attempts; replay it."""

    pending = "pending"
    delivered = "delivered"
    dead = "dead"


@dataclass(frozen=True, slots=True)
class WebhookChoice:
    """The changes that a webhook sends. Empty lists and None stand for all. `where`: a checked filter as JSON text."""

    events: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    user_id: str | None = None
    where: str | None = None
    with_memory: bool = False

    def has_category(self, category: str | None) -> bool:
        """Return whether changes of memories in the category are sent."""
        return not self.categories or category in self.categories

    def read_where(self) -> Node | None:
        """Return the filter as a tree, None if there is none."""
        return read_where(self.where, WHERE_FIELDS)


@dataclass(frozen=True, slots=True)
class WebhookEdit:
    """The fields of a webhook to change; None leaves one as it is.

    `cleared`: the names of fields that are set back, so that the webhook is for all users (`user_id`) or for what any
    memory is like (`where`).
    """

    url: str | None = None
    events: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None
    user_id: str | None = None
    where: str | None = None
    cleared: tuple[str, ...] = ()
    with_memory: bool | None = None
    enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """A stored webhook without its secrets. `reason`: why Mnema disabled it."""

    id: UUID
    url: str
    choice: WebhookChoice
    enabled: bool
    reason: str | None
    created_at: datetime
    updated_at: datetime
    pending: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class SecretWebhook:
    """A webhook with its secret, which is shown when it is made."""

    webhook: Webhook
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A change on its way to a webhook. `status`: that of the last answer. `error`: a word for the last failure."""

    id: UUID
    webhook_id: UUID
    event: str
    memory_id: str
    user_id: str | None
    category: str | None
    type: str | None
    version: int | None
    happened_at: datetime
    state: DeliveryState
    attempts: int
    next_attempt: datetime
    status: int | None
    error: str | None
    created_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one attempt. `status` is None without an answer, `error` None after a success."""

    status: int | None
    error: str | None
    milliseconds: float = 0.0

    @property
    def has_gone(self) -> bool:
        """True if the receiver says that it wants no more."""
        return self.status == 410


def check_where(given: Mapping[str, Any] | None) -> str | None:
    """Return a filter as the text to store, None for None. Raise InvalidInput if it is no filter or too large."""
    if given is None:
        return None
    parse_where(given, fields=WHERE_FIELDS)
    text = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode()) > MAX_JSON_BYTES:
        raise InvalidInput(f"where: at most {MAX_JSON_BYTES} bytes as JSON", param="where")
    return text


def retry_s(attempts: int, jitter: float) -> float | None:
    """Return the seconds until the next attempt after so many failed ones, None if that was the last.

    `jitter` in [0, 1) adds up to a tenth, so that deliveries that failed together do not come together.
    """
    if attempts > len(RETRIES_S):
        return None
    return RETRIES_S[attempts - 1] * (1 + jitter / 10)
