"""The chat endpoints that tenants have of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

import asyncpg

from app.domain.chat.upstream import OPENAI, UpstreamDialect
from app.domain.errors import ConfigError
from app.domain.principal import Principal
from app.storage.chat.key_cipher import KeyCipher
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

StoredUpstreams: TypeAlias = Mapping[UpstreamDialect, "StoredUpstream"]
"""A tenant's own chat endpoints."""
_SQL = load_statements("chat/upstreams.sql")


@dataclass(frozen=True, slots=True)
class StoredUpstream:
    """A tenant's chat endpoint. `api_key` is empty if it needs none, None if it cannot be decrypted."""

    base_url: str
    api_key: str | None = field(repr=False)
    updated_at: datetime


class UpstreamStorage:
    """Statements on tenants' chat endpoints."""

    def __init__(self, uow: UnitOfWork, cipher: KeyCipher) -> None:
        self._uow = uow
        self._cipher = cipher

    async def list_upstreams(self, principal: Principal) -> StoredUpstreams:
        """Return the tenant's own endpoints."""
        async with self._uow.read(principal) as tx:
            rows = await tx.fetch(_SQL["list"], principal.tenant_id)
        return {row["dialect"]: self._decrypt_row(principal, row) for row in rows}

    async def set_upstream(
        self, principal: Principal, base_url: str, api_key: str, dialect: UpstreamDialect = OPENAI
    ) -> None:
        """Store the tenant's endpoint of a dialect in place of the former one. Raise NotFound for an unknown tenant."""
        stored = self._cipher.encrypt_key(principal.tenant_id, base_url, api_key)
        async with self._uow.write(principal) as tx:
            await tx.execute(_SQL["set"], principal.tenant_id, dialect, base_url, stored)

    async def clear_upstream(self, principal: Principal, dialect: UpstreamDialect = OPENAI) -> bool:
        """Delete the tenant's endpoint of a dialect; return False if it had none."""
        async with self._uow.write(principal) as tx:
            return await tx.execute(_SQL["clear"], principal.tenant_id, dialect) == "DELETE 1"

    def _decrypt_row(self, principal: Principal, row: asyncpg.Record) -> StoredUpstream:
        api_key = self._cipher.decrypt_key(principal.tenant_id, row["base_url"], row["api_key"])
        return StoredUpstream(row["base_url"], api_key, row["updated_at"])


async def encrypt_keys_again(connection: asyncpg.Connection, cipher: KeyCipher) -> int:
    """Encrypt the keys of all tenants with the present secret, in the owner's open transaction. Return their number.

    Raise ConfigError, which names the tenants, if a key cannot be decrypted; the transaction must then be rolled back.
    """
    await connection.execute("LOCK TABLE chat_upstreams IN SHARE ROW EXCLUSIVE MODE")
    count = 0
    unreadable: dict[str, None] = {}
    for tenant in await connection.fetch("SELECT id, name FROM list_tenants()"):
        await connection.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant["id"]))
        for row in await connection.fetch(_SQL["list"], tenant["id"]):
            if not row["api_key"]:
                continue
            if (api_key := cipher.decrypt_key(tenant["id"], row["base_url"], row["api_key"])) is None:
                unreadable[tenant["name"]] = None
                continue
            stored = cipher.encrypt_key(tenant["id"], row["base_url"], api_key)
            await connection.execute(_SQL["encrypt_again"], tenant["id"], row["dialect"], stored)
            count += 1
    if unreadable:
        raise ConfigError(
            "neither MNEMA_SECRET_KEY nor MNEMA_FORMER_SECRET_KEY decrypts the keys of the chat endpoints of these "
            f"tenants: {', '.join(unreadable)}. Nothing was changed. Set the former secret, or run `mnema tenant "
            "upstream clear` for them"
        )
    return count
