"""Webhooks and their deliveries."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, Change, Page, Request, words
from mnema_wire.fields import Identifier, Where
from mnema_wire.memory import CHANGES

ChangeName = Annotated[str, words(*CHANGES)]
_Url = Annotated[str, Field(min_length=1, max_length=2048)]
_Events = Annotated[list[ChangeName], Field(max_length=len(CHANGES))]
_Categories = Annotated[list[Identifier], Field(max_length=50)]
Secret = Annotated[str, Field(min_length=1, max_length=100, description="`whsec_` and 24 to 64 bytes in base64")]


class NewWebhook(Request):
    """A webhook to make. It hears of the changes from then on."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"url": "https://93.184.216.34/mnema", "events": ["ADD"]}]}
    )
    url: _Url = Field(description="http:// or https://; it gets a POST for each change")
    events: _Events = Field(default_factory=list, description="only these changes; all if empty")
    categories: _Categories = Field(default_factory=list, description="only these categories; all if empty")
    user_id: Identifier | None = Field(default=None, description="only this user's memories")
    where: Where | None = None
    with_memory: bool = Field(default=False, strict=True, description="messages have the memory as it is at sending")
    secret: Secret | None = Field(default=None, description="a secret of your own; a new one if absent")


class WebhookChanges(Change):
    """The fields to change. Absent fields stay as they are; `user_id: null` means all users,
    `where: null` any memory.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"enabled": False}]})
    url: _Url = "-"
    events: _Events = Field(default_factory=list)
    categories: _Categories = Field(default_factory=list)
    user_id: Identifier | None = None
    where: Where | None = None
    with_memory: bool = Field(default=False, strict=True)
    enabled: bool = Field(default=True, strict=True, description="a disabled webhook keeps what waits")


class NewSecret(Request):
    """A new secret of a webhook."""

    secret: Secret | None = Field(default=None, description="a secret of your own; a new one if absent")


class Webhook(Answered):
    """A webhook."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID = Field(description="id of the webhook")
    url: str
    events: list[ChangeName]
    categories: list[str]
    user_id: str | None
    where: dict[str, Any] | None = Field(default=None, description="the conditions on the memories; null: none")
    with_memory: bool
    enabled: bool
    reason: str | None = Field(description="why Mnema disabled it: `gone` after an answer 410")
    pending: int = Field(description="deliveries that wait for their next attempt")
    dead: int = Field(description="deliveries that used all their attempts")
    created_at: datetime
    updated_at: datetime


class WebhookSecret(Webhook):
    """A webhook with its secret, which is shown once."""

    secret: str = Field(description="verifies the signatures of messages")


class WebhookList(Answered):
    """All webhooks of a tenant."""

    items: list[Webhook]


class WebhookTest(Answered):
    """The result of a test message."""

    status: int | None = Field(description="the receiver's status; null: it gave no answer")
    error: str | None = Field(description="a word for the failure; null: the receiver took the message")
    milliseconds: float


class WebhookDelivery(Answered):
    """A change on its way to a webhook."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID = Field(description="id of the delivery; the header `webhook-id` is `msg_` and its 32 digits")
    event: ChangeName
    memory_id: str
    user_id: str | None
    happened_at: datetime = Field(description="when the memory changed")
    state: Annotated[str, words("pending", "delivered", "dead")]
    attempts: int
    next_attempt: datetime
    status: int | None = Field(description="the status of the last answer")
    error: str | None = Field(description="a word for the last failure")
    created_at: datetime
    ended_at: datetime | None


class WebhookDeliveryPage(Page[WebhookDelivery]):
    """A page of deliveries, newest first. Pass `next_cursor` as `cursor` for the next page."""


class Replayed(Answered):
    """The deliveries that are sent again."""

    replayed: int
