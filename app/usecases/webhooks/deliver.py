"""The delivery of webhooks: each worker process serves those that nobody serves, many at a time."""

import asyncio
import random
from dataclasses import replace
from typing import Final
from uuid import UUID

import structlog

from app.domain.errors import MnemaError
from app.domain.memory.change_feed import ChangeFilter
from app.domain.principal import Principal
from app.domain.webhooks.webhook import Attempt, Delivery, Webhook, retry_s
from app.ports import Clock, WebhookSender
from app.shares import TenantShares, acting_tenant
from app.storage.memory.change_feed import ChangeFeedStorage
from app.storage.uow import UnitOfWork
from app.storage.webhooks.webhooks import DueWebhook, WebhookStorage
from app.usecases.webhooks.messages import change_message, sign_message

log = structlog.get_logger(__name__)
LEASE_S: Final = 90.0
"""Seconds for which a worker has a webhook without renewing it: longer than a batch takes."""
LOOK_S: Final = 2.0
"""Seconds between two looks for changes."""
BATCH: Final = 4
"""Messages to one webhook at the same time."""
SERVED: Final = 64
"""Webhooks that a process serves at the same time. A tenant has a share of them."""
MAX_PENDING: Final = 1000
"""Deliveries of a webhook that wait. Further changes wait in history, so a dead receiver fills no table."""
PAGE: Final = 500
KEPT_DAYS: Final = 30
"""Days for which a delivery that has ended is kept."""


class DeliverWebhooks:
    """The workers' use-case. Any number of workers may call it at the same time.

    A message is sent at least once: a worker that dies between sending and recording leaves it to the next one, which
    sends it with the same id.
    """

    def __init__(
        self, uow: UnitOfWork, storage: WebhookStorage, feed: ChangeFeedStorage, sender: WebhookSender, clock: Clock
    ) -> None:
        self._uow = uow
        self._storage = storage
        self._feed = feed
        self._sender = sender
        self._clock = clock
        self._shares = TenantShares(SERVED)
        self._serving: set[asyncio.Task[None]] = set()

    async def serve_due(self) -> int:
        """Begin to serve the webhooks that are due, and return how many. It waits for none of them."""
        begun = 0
        for due in await self._storage.find_due(SERVED):
            if not self._shares.take_place(due.tenant_id):
                continue  # this tenant has its share: another worker may take it
            task = asyncio.create_task(self._serve_one(due))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
            begun += 1
        return begun

    async def close(self) -> None:
        """Stop. What was being sent is sent again by another worker."""
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve_one(self, due: DueWebhook) -> None:
        acting_tenant.set(due.tenant_id)
        try:
            await self.serve_webhook(Principal(due.tenant_id), due.webhook_id)
        except MnemaError as error:  # it is due again when the lease ends
            log.warning("webhook_not_served", webhook_id=str(due.webhook_id), code=error.code)
        except Exception:
            log.exception("webhook_failed", webhook_id=str(due.webhook_id))
        finally:
            self._shares.return_place(due.tenant_id)

    async def serve_webhook(self, principal: Principal, webhook_id: UUID) -> None:
        """Add the deliveries of new changes, and send all that are due, unless another worker serves the webhook."""
        async with self._uow.write(principal) as tx:
            if not await self._storage.claim_webhook(tx, principal, webhook_id, LEASE_S):
                return
            await self._storage.clear_deliveries(tx, principal, webhook_id, KEPT_DAYS)
        while await self._add_page(principal, webhook_id):
            pass
        while await self._send_batch(principal, webhook_id):
            pass
        async with self._uow.write(principal) as tx:
            await self._storage.keep_webhook(tx, principal, webhook_id, LOOK_S)

    async def _add_page(self, principal: Principal, webhook_id: UUID) -> bool:
        """Make deliveries of the next changes; return True if more follow."""
        async with self._uow.write(principal) as tx:
            place = await self._storage.lock_place(tx, principal, webhook_id)
            if place is None or place.pending >= MAX_PENDING:
                return False
            epoch = (await self._feed.find_last(tx, principal)).stamp.epoch
            after = place.in_epoch(epoch)
            choice = place.choice
            wanted = ChangeFilter(choice.user_id, choice.read_where())
            page = await self._feed.read_page(tx, principal, wanted, after, PAGE)
            events = [
                event
                for event in page.events
                if (not choice.events or event.event in choice.events) and choice.has_category(event.category)
            ]
            await self._storage.add_deliveries(tx, principal, webhook_id, events, page.position)
        return page.more

    async def _send_batch(self, principal: Principal, webhook_id: UUID) -> bool:
        """Send the next deliveries that are due; return True if there may be more."""
        async with self._uow.write(principal) as tx:
            await self._storage.keep_webhook(tx, principal, webhook_id, LEASE_S)
            webhooks = await self._storage.list_webhooks(tx, principal, webhook_id)
            if not webhooks or not webhooks[0].enabled:
                return False
            deliveries = await self._storage.list_due(tx, principal, webhook_id, BATCH)
            secrets = await self._storage.read_secrets(tx, principal, webhook_id)
        webhook = webhooks[0]
        gone = await asyncio.gather(
            *(self._send_delivery(principal, webhook, delivery, secrets) for delivery in deliveries)
        )
        return len(deliveries) == BATCH and not any(gone)

    async def _send_delivery(
        self, principal: Principal, webhook: Webhook, delivery: Delivery, secrets: list[str]
    ) -> bool:
        """Send one delivery and record the result. Return True if the receiver wants no more."""
        if not secrets:
            attempt = Attempt(None, "secret_unreadable")
        else:
            memories = {}
            if webhook.choice.with_memory:
                async with self._uow.read(principal) as tx:
                    memories = await self._feed.read_memories(tx, principal, [delivery.memory_id])
            memory = memories.get(delivery.memory_id)
            if memory is not None and not webhook.choice.has_category(memory.category):
                memory = None  # it moved since: its text is no longer for this receiver
            body = change_message(delivery, memory, with_memory=webhook.choice.with_memory)
            headers = sign_message(delivery.id, self._clock.now(), body, secrets)
            attempt = await self._sender.send(principal.tenant_id, webhook.url, headers, body)
        again_s = retry_s(delivery.attempts + 1, random.random())
        if attempt.has_gone:
            attempt = replace(attempt, error="gone")
        async with self._uow.write(principal) as tx:
            await self._storage.record_attempt(tx, principal, delivery.id, attempt, again_s)
            if attempt.has_gone:
                await self._storage.disable_webhook(tx, principal, webhook.id, "gone")
        return attempt.has_gone
