"""Statements on webhooks and their deliveries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from app.domain.epochs import ChangePosition, Stamp
from app.domain.memory.change_feed import ChangeEvent
from app.domain.paging import Position
from app.domain.principal import Principal
from app.domain.webhooks.webhook import Attempt, Delivery, DeliveryState, Webhook, WebhookChoice, WebhookEdit
from app.storage.chat.key_cipher import KeyCipher
from app.storage.identity import new_id
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row, UnitOfWork, WriteTx

_SQL: Final = load_statements("webhooks/webhooks.sql")


class DueWebhook(NamedTuple):
    """A webhook that nobody serves now."""

    tenant_id: UUID
    webhook_id: UUID


@dataclass(frozen=True, slots=True)
class WebhookPlace:
    """A webhook's choice and its place in the stream. `pending`: its deliveries that wait."""

    choice: WebhookChoice
    stamp: int
    record: UUID
    pending: int

    def in_epoch(self, epoch: UUID) -> ChangePosition:
        """Return the place as a position of the database's present epoch: both are rows of one database."""
        return ChangePosition(Stamp(epoch, self.stamp), self.record)


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """A webhook to store, with its secret and the place where it begins."""

    id: UUID
    url: str
    choice: WebhookChoice
    secret: str = field(repr=False)


class WebhookStorage:
    """Statements on webhooks. Secrets are encrypted for their tenant and webhook."""

    def __init__(self, uow: UnitOfWork, cipher: KeyCipher) -> None:
        self._uow = uow
        self._cipher = cipher

    async def find_due(self, limit: int) -> list[DueWebhook]:
        """Return webhooks of all tenants that nobody serves now, the longest waiting first."""
        rows = await self._uow.call_everywhere(_SQL["due"], limit)
        return [DueWebhook(row["tenant_id"], row["id"]) for row in rows]

    async def list_webhooks(self, tx: ReadTx, principal: Principal, webhook_id: UUID | None = None) -> list[Webhook]:
        """Return the tenant's webhooks, or the one with this id."""
        rows = await tx.fetch(_SQL["list"], principal.tenant_id, webhook_id)
        return [_webhook_from_row(row) for row in rows]

    async def count_webhooks(self, tx: ReadTx, principal: Principal) -> int:
        """Return the number of the tenant's webhooks."""
        return int(await tx.fetchval(_SQL["count"], principal.tenant_id))

    async def create_webhook(self, tx: WriteTx, principal: Principal, new: NewWebhook, begin: ChangePosition) -> None:
        """Store a webhook that hears of the changes behind `begin`."""
        choice = new.choice
        chosen = list(choice.events), list(choice.categories), choice.user_id, choice.where, choice.with_memory
        secret = self._encrypt(principal, new.id, new.secret)
        place = begin.stamp.number, begin.record
        await tx.execute(_SQL["create"], principal.tenant_id, new.id, new.url, *chosen, secret, *place)

    async def change_webhook(self, tx: WriteTx, principal: Principal, webhook_id: UUID, edit: WebhookEdit) -> bool:
        """Change a webhook; return False if there is none."""
        events, categories = (None if one is None else list(one) for one in (edit.events, edit.categories))
        state = None if edit.enabled is None else "enabled" if edit.enabled else "disabled"
        chosen = edit.url, events, categories, edit.user_id, edit.where, edit.with_memory
        return bool(await tx.fetch(_SQL["change"], principal.tenant_id, webhook_id, *chosen, state, list(edit.cleared)))

    async def rotate_secret(
        self, tx: WriteTx, principal: Principal, webhook_id: UUID, secret: str, former_s: float
    ) -> bool:
        """Give a webhook a new secret; the former one signs too for `former_s` seconds.

        Return False if there is no such webhook.
        """
        stored = self._encrypt(principal, webhook_id, secret)
        kept = timedelta(seconds=former_s)
        return bool(await tx.fetch(_SQL["rotate"], principal.tenant_id, webhook_id, stored, kept))

    async def delete_webhook(self, tx: WriteTx, principal: Principal, webhook_id: UUID) -> bool:
        """Delete a webhook with its deliveries; return False if there is none."""
        return bool(await tx.fetch(_SQL["delete"], principal.tenant_id, webhook_id))

    async def read_secrets(self, tx: ReadTx, principal: Principal, webhook_id: UUID) -> list[str]:
        """Return the secrets that sign now, the present one first. One that cannot be decrypted is missing."""
        row = await tx.fetchrow(_SQL["secrets"], principal.tenant_id, webhook_id)
        stored = () if row is None else (row["secret"], row["former"])
        opened = (self._decrypt(principal.tenant_id, webhook_id, one) for one in stored if one is not None)
        return [secret for secret in opened if secret]

    async def claim_webhook(self, tx: WriteTx, principal: Principal, webhook_id: UUID, lease_s: float) -> bool:
        """Take a webhook for `lease_s` seconds; return False if another worker has it, or if it is disabled."""
        lease = timedelta(seconds=lease_s)
        return bool(await tx.fetch(_SQL["claim"], principal.tenant_id, webhook_id, lease))

    async def keep_webhook(self, tx: WriteTx, principal: Principal, webhook_id: UUID, for_s: float) -> None:
        """Set when the webhook is due again."""
        await tx.execute(_SQL["keep"], principal.tenant_id, webhook_id, timedelta(seconds=for_s))

    async def lock_place(self, tx: WriteTx, principal: Principal, webhook_id: UUID) -> WebhookPlace | None:
        """Return the place of an enabled webhook and lock it; None if there is none."""
        row = await tx.fetchrow(_SQL["cursor"], principal.tenant_id, webhook_id)
        if row is None:
            return None
        return WebhookPlace(_choice_from_row(row), row["stamp"], row["record"], row["pending"])

    async def add_deliveries(
        self, tx: WriteTx, principal: Principal, webhook_id: UUID, events: Sequence[ChangeEvent], to: ChangePosition
    ) -> None:
        """Add a delivery for each event, and move the webhook's place."""
        rows = [_delivery_row(event) for event in events]
        if rows:
            await tx.execute(_SQL["add_deliveries"], principal.tenant_id, webhook_id, rows)
        await tx.execute(_SQL["move"], principal.tenant_id, webhook_id, to.stamp.number, to.record)

    async def list_due(self, tx: ReadTx, principal: Principal, webhook_id: UUID, limit: int) -> list[Delivery]:
        """Return deliveries that are due, the longest waiting first."""
        rows = await tx.fetch(_SQL["due_deliveries"], principal.tenant_id, webhook_id, limit)
        return [_delivery_from_row(row) for row in rows]

    async def record_attempt(
        self, tx: WriteTx, principal: Principal, delivery_id: UUID, attempt: Attempt, again_s: float | None
    ) -> None:
        """Record the result of an attempt. `again_s`: seconds until the next one, None if there is none."""
        named = principal.tenant_id, delivery_id, attempt.status
        if attempt.error is None:
            await tx.execute(_SQL["delivered"], *named)
        else:
            delay = None if again_s is None else timedelta(seconds=again_s)
            await tx.execute(_SQL["failed"], *named, attempt.error, delay)

    async def disable_webhook(self, tx: WriteTx, principal: Principal, webhook_id: UUID, reason: str) -> None:
        """Disable a webhook. What waits stays, until it is enabled again or deleted."""
        await tx.execute(_SQL["disable"], principal.tenant_id, webhook_id, reason)

    async def list_deliveries(
        self,
        tx: ReadTx,
        principal: Principal,
        webhook_id: UUID,
        state: DeliveryState | None,
        after: Position | None,
        limit: int,
    ) -> list[Delivery]:
        """Return deliveries behind `after`, newest first, at most `limit`."""
        place = after or (None, None)
        rows = await tx.fetch(_SQL["page"], principal.tenant_id, webhook_id, state, *place, limit)
        return [_delivery_from_row(row) for row in rows]

    async def replay_deliveries(
        self, tx: WriteTx, principal: Principal, webhook_id: UUID, delivery_id: UUID | None
    ) -> int:
        """Make a delivery, or all dead ones, pending again. Return how many."""
        return len(await tx.fetch(_SQL["replay"], principal.tenant_id, webhook_id, delivery_id))

    async def clear_deliveries(self, tx: WriteTx, principal: Principal, webhook_id: UUID, days: int) -> None:
        """Delete deliveries that ended so many days ago."""
        await tx.execute(_SQL["clear"], principal.tenant_id, webhook_id, timedelta(days=days))

    def _encrypt(self, principal: Principal, webhook_id: UUID, secret: str) -> bytes:
        return self._cipher.encrypt_key(principal.tenant_id, _purpose(webhook_id), secret)

    def _decrypt(self, tenant_id: UUID, webhook_id: UUID, stored: bytes) -> str | None:
        return self._cipher.decrypt_key(tenant_id, _purpose(webhook_id), stored)


async def encrypt_secrets_again(connection: asyncpg.Connection, cipher: KeyCipher) -> int:
    """Encrypt the secrets of all tenants' webhooks with the present secret of the installation. Return their number.

    In the owner's open transaction. One that cannot be decrypted stays as it is: rotate that webhook's secret.
    """
    await connection.execute("LOCK TABLE webhooks IN SHARE ROW EXCLUSIVE MODE")
    count = 0
    for tenant in await connection.fetch("SELECT id FROM list_tenants()"):
        await connection.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant["id"]))
        for row in await connection.fetch(_SQL["all_secrets"], tenant["id"]):
            place = tenant["id"], _purpose(row["id"])
            stored = [row["secret"], row["former_secret"]]
            for number, one in enumerate(stored):
                if one is not None and (secret := cipher.decrypt_key(*place, one)) is not None:
                    stored[number] = cipher.encrypt_key(*place, secret)
                    count += 1
            await connection.execute(_SQL["encrypt_again"], tenant["id"], row["id"], *stored)
    return count


def _purpose(webhook_id: UUID) -> str:
    """Return what a secret is encrypted for: no URL of a chat endpoint is like it."""
    return f"webhook:{webhook_id}"


def _delivery_row(event: ChangeEvent) -> Mapping[str, Any]:
    return {
        "id": str(new_id()),
        "record": str(event.position.record),
        "memory_id": event.memory_id,
        "event": event.event,
        "user_id": event.user_id,
        "category": event.category,
        "type": event.type,
        "version": event.version,
        "happened_at": event.time.isoformat(),
    }


def _choice_from_row(row: Row) -> WebhookChoice:
    return WebhookChoice(
        events=tuple(row["events"]),
        categories=tuple(row["categories"]),
        user_id=row["user_id"],
        where=row["conditions"],
        with_memory=row["with_memory"],
    )


def _webhook_from_row(row: Row) -> Webhook:
    return Webhook(
        id=row["id"],
        url=row["url"],
        choice=_choice_from_row(row),
        enabled=row["state"] == "enabled",
        reason=row["reason"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        pending=row["pending"],
        dead=row["dead"],
    )


def _delivery_from_row(row: Row) -> Delivery:
    values = {name: value for name, value in dict(row).items() if name not in ("tenant_id", "record")}
    return Delivery(**{**values, "state": DeliveryState(row["state"])})
