"""Erasure of a user: delete rows, blank the text of rows that must stay, and refuse that text from then on."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.domain.errors import NotFound
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.ports import Clock
from app.storage.access_log import AccessLog
from app.storage.retention.forgetting import ForgettingStorage

ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """The proof of an erasure. `counts`: rows that were deleted or blanked, by kind."""

    user_id: str
    erased_at: datetime
    counts: dict[str, int]


@dataclass(frozen=True)
class EraseUser:
    """The use-case that erases a user. An erasure cannot be undone.

    `store_kept` stores the turns of a tenant that this server keeps on its disk.
    """

    storage: ForgettingStorage
    access: AccessLog
    clock: Clock
    store_kept: Callable[[UUID], Awaitable[None]]

    async def erase_user(self, principal: Principal, user_id: str) -> ErasureReceipt:
        """Erase everything stored for a user; raise NotFound if nothing is stored."""
        await self.access.flush_pending(principal)
        await self.store_kept(principal.tenant_id)
        counts = await self._erase_with_retries(principal, user_id)
        if counts is None:
            raise NotFound(f"nothing is stored for user {user_id!r}")
        return ErasureReceipt(user_id, self.clock.now(), counts)

    async def _erase_with_retries(self, principal: Principal, user_id: str) -> dict[str, int] | None:
        for _attempt in range(ATTEMPTS - 1):
            try:
                return await self.storage.erase_user(principal, user_id)
            except WriteContention:  # a deadlock with a writer of the same user; nothing was changed yet
                continue
        return await self.storage.erase_user(principal, user_id)
