"""Webhooks of a tenant: make, change, rotate, delete and test them, and read and replay their deliveries."""

import secrets
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import InvalidInput, NotFound
from app.domain.paging import Page, cut_page, decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.domain.webhooks.signing import decode_secret, encode_secret
from app.domain.webhooks.webhook import (
    FORMER_SECRET_S,
    MAX_WEBHOOKS,
    Attempt,
    Delivery,
    DeliveryState,
    SecretWebhook,
    Webhook,
    WebhookChoice,
    WebhookEdit,
)
from app.ports import Clock, WebhookSender
from app.storage.identity import new_id
from app.storage.memory.change_feed import ChangeFeedStorage
from app.storage.uow import UnitOfWork
from app.storage.webhooks.webhooks import NewWebhook, WebhookStorage
from app.usecases.webhooks.messages import sign_message, test_message

NEW_SECRET_BYTES = 32


class ManageWebhooks:
    """The use-cases of an administrator, whose key is bound to no agent: a webhook tells of all categories."""

    def __init__(
        self,
        uow: UnitOfWork,
        storage: WebhookStorage,
        feed: ChangeFeedStorage,
        sender: WebhookSender,
        policies: TenantPolicies,
        clock: Clock,
    ) -> None:
        self._uow = uow
        self._storage = storage
        self._feed = feed
        self._sender = sender
        self._policies = policies
        self._clock = clock

    async def create_webhook(
        self, principal: Principal, url: str, choice: WebhookChoice, secret: str | None = None
    ) -> SecretWebhook:
        """Make a webhook that hears of the changes from now on. Return it with its secret, a new one if none is given.

        Raise WebhookNotAllowed, UnknownCategory, or InvalidInput for a wrong secret or too many webhooks.
        """
        self._check_categories(principal, choice.categories)
        secret = secret or encode_secret(secrets.token_bytes(NEW_SECRET_BYTES))
        decode_secret(secret)
        await self._sender.check_url(url)
        new = NewWebhook(new_id(), url, choice, secret)
        async with self._uow.write(principal) as tx:
            if await self._storage.count_webhooks(tx, principal) >= MAX_WEBHOOKS:
                raise InvalidInput(f"a tenant has at most {MAX_WEBHOOKS} webhooks")
            begin = await self._feed.find_last(tx, principal)
            await self._storage.create_webhook(tx, principal, new, begin)
        return SecretWebhook(await self.get_webhook(principal, new.id), secret)

    async def list_webhooks(self, principal: Principal) -> list[Webhook]:
        """Return the tenant's webhooks, the oldest first."""
        async with self._uow.read(principal) as tx:
            return await self._storage.list_webhooks(tx, principal)

    async def get_webhook(self, principal: Principal, webhook_id: UUID) -> Webhook:
        """Return a webhook. Raise NotFound."""
        async with self._uow.read(principal) as tx:
            found = await self._storage.list_webhooks(tx, principal, webhook_id)
        if not found:
            raise NotFound("no such webhook")
        return found[0]

    async def change_webhook(self, principal: Principal, webhook_id: UUID, edit: WebhookEdit) -> Webhook:
        """Change a webhook and return it. What waits goes to the new URL. Raise the errors of `create_webhook`."""
        self._check_categories(principal, edit.categories or ())
        if edit.url is not None:
            await self._sender.check_url(edit.url)
        async with self._uow.write(principal) as tx:
            if not await self._storage.change_webhook(tx, principal, webhook_id, edit):
                raise NotFound("no such webhook")
        return await self.get_webhook(principal, webhook_id)

    async def rotate_secret(self, principal: Principal, webhook_id: UUID, secret: str | None = None) -> SecretWebhook:
        """Give a webhook another secret and return it. For a day, the former one signs too. Raise NotFound."""
        secret = secret or encode_secret(secrets.token_bytes(NEW_SECRET_BYTES))
        decode_secret(secret)
        async with self._uow.write(principal) as tx:
            if not await self._storage.rotate_secret(tx, principal, webhook_id, secret, FORMER_SECRET_S):
                raise NotFound("no such webhook")
        return SecretWebhook(await self.get_webhook(principal, webhook_id), secret)

    async def delete_webhook(self, principal: Principal, webhook_id: UUID) -> None:
        """Delete a webhook with its deliveries. Raise NotFound."""
        async with self._uow.write(principal) as tx:
            if not await self._storage.delete_webhook(tx, principal, webhook_id):
                raise NotFound("no such webhook")

    async def test_webhook(self, principal: Principal, webhook_id: UUID) -> Attempt:
        """Send a message of the type `webhook.test` now, once, and return the result. Raise NotFound."""
        webhook = await self.get_webhook(principal, webhook_id)
        async with self._uow.read(principal) as tx:
            keys = await self._storage.read_secrets(tx, principal, webhook_id)
        now = self._clock.now()
        body = test_message(webhook_id, now)
        headers = sign_message(new_id(), now, body, keys)
        return await self._sender.send(principal.tenant_id, webhook.url, headers, body)

    async def list_deliveries(
        self, principal: Principal, webhook_id: UUID, state: DeliveryState | None, cursor: str | None, limit: int
    ) -> Page[Delivery]:
        """Return a page of a webhook's deliveries, newest first. Raise NotFound or InvalidCursor."""
        await self.get_webhook(principal, webhook_id)
        after = decode_cursor(cursor)
        async with self._uow.read(principal) as tx:
            rows = await self._storage.list_deliveries(tx, principal, webhook_id, state, after, limit + 1)
        return cut_page(rows, limit, lambda delivery: encode_cursor((delivery.created_at, delivery.id)))

    async def replay_deliveries(self, principal: Principal, webhook_id: UUID, delivery_id: UUID | None = None) -> int:
        """Send a delivery again, or all dead ones. Return how many. Raise NotFound for an unknown or waiting one."""
        await self.get_webhook(principal, webhook_id)
        async with self._uow.write(principal) as tx:
            count = await self._storage.replay_deliveries(tx, principal, webhook_id, delivery_id)
        if delivery_id is not None and not count:
            raise NotFound("no such delivery, or it waits already")
        return count

    def _check_categories(self, principal: Principal, categories: tuple[str, ...]) -> None:
        for category in categories:
            self._policies.of(principal).categories.get_category(category, principal)
