"""The builder of the capability `webhooks`."""

from dataclasses import dataclass

from app.bootstrap.parts import SharedParts
from app.bootstrap.upstreams import build_key_cipher
from app.ports import WebhookSender
from app.providers.upstreams.addresses import AddressRules
from app.providers.webhook_sender import HttpWebhookSender
from app.storage.memory.change_feed import ChangeFeedStorage
from app.storage.webhooks.webhooks import WebhookStorage
from app.usecases.webhooks.deliver import DeliverWebhooks
from app.usecases.webhooks.manage import ManageWebhooks


@dataclass(frozen=True, slots=True)
class WebhookUseCases:
    """The use-cases of the capability."""

    manage: ManageWebhooks
    deliver: DeliverWebhooks
    sender: WebhookSender

    async def close(self) -> None:
        """Stop the deliveries, and release the connections."""
        await self.deliver.close()
        await self.sender.close()


def build_webhooks(parts: SharedParts) -> WebhookUseCases:
    """Build the use-cases that set webhooks and deliver to them."""
    settings = parts.settings
    hosts = tuple(settings.webhook_hosts)
    rules = AddressRules(hosts, settings.webhook_private, "webhooks", "MNEMA_WEBHOOK_PRIVATE")
    sender = HttpWebhookSender(rules, settings.webhook_timeout_s)
    storage = WebhookStorage(parts.uow, build_key_cipher(settings))
    feed = ChangeFeedStorage()
    return WebhookUseCases(
        manage=ManageWebhooks(parts.uow, storage, feed, sender, parts.policies, parts.clock),
        deliver=DeliverWebhooks(parts.uow, storage, feed, sender, parts.clock),
        sender=sender,
    )
