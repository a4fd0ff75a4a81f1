"""Erasure of a user: delete rows, blank the text of rows that must stay, and refuse that text from then on."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog

from app.domain.errors import NotFound
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.ports import Clock
from app.storage.access_log import AccessLog
from app.storage.retention.forgetting import ForgettingStorage

log = structlog.get_logger(__name__)
ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """The proof of an erasure. `counts`: rows that were deleted or blanked, by kind.

    `unreached`: clusters that may still have the texts: they hold a copy of the tenant from before it moved, or do not
    answer.
    """

    user_id: str
    erased_at: datetime
    counts: dict[str, int]
    unreached: tuple[str, ...] = ()


@dataclass(frozen=True)
class EraseUser:
    """The use-case that erases a user. An erasure cannot be undone.

    `store_kept` stores the turns of a tenant that this server keeps on its disk. `note_copies` returns the clusters
    that have, or may have, a copy of the tenant from before it moved, and notes that they owe the erasure.
    """

    storage: ForgettingStorage
    access: AccessLog
    clock: Clock
    store_kept: Callable[[UUID], Awaitable[None]]
    note_copies: Callable[[Principal], Awaitable[Sequence[str]]]

    async def erase_user(self, principal: Principal, user_id: str) -> ErasureReceipt:
        """Erase everything stored for a user; raise NotFound if nothing is stored."""
        await self.access.flush_pending(principal)
        await self.store_kept(principal.tenant_id)
        counts = await self._erase_with_retries(principal, user_id)
        if counts is None:
            raise NotFound(f"nothing is stored for user {user_id!r}")
        unreached = tuple(await self.note_copies(principal))
        if unreached:
            log.warning("erasure_not_everywhere", tenant=str(principal.tenant_id), clusters=list(unreached))
        return ErasureReceipt(user_id, self.clock.now(), counts, unreached)

    async def _erase_with_retries(self, principal: Principal, user_id: str) -> dict[str, int] | None:
        for _attempt in range(ATTEMPTS - 1):
            try:
                return await self.storage.erase_user(principal, user_id)
            except WriteContention:  # a deadlock with a writer of the same user; nothing was changed yet
                continue
        return await self.storage.erase_user(principal, user_id)
