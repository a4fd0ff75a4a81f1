"""Erasure of a person: rows go, what must stay is left without text, and the text does not come back."""

from dataclasses import dataclass
from datetime import datetime

from app.domain.errors import NotFound
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.ports import Clock
from app.storage.access_log import AccessLog
from app.storage.retention.forgetting import ForgettingStorage

ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """Proof of an erasure: what was removed or blanked, by kind."""

    user_id: str
    erased_at: datetime
    counts: dict[str, int]


class EraseUser:
    """Irrevocable."""

    def __init__(self, storage: ForgettingStorage, access: AccessLog, clock: Clock) -> None:
        self._storage = storage
        self._access = access
        self._clock = clock

    async def erase_user(self, scope: Principal, user_id: str) -> ErasureReceipt:
        """Erase everything held of a user; raises NotFound for one the tenant does not know."""
        await self._access.flush_pending(scope)
        counts = await self._erase_with_retries(scope, user_id)
        if counts is None:
            raise NotFound(f"nothing is held of user {user_id!r}")
        return ErasureReceipt(user_id, self._clock.now(), counts)

    async def _erase_with_retries(self, scope: Principal, user_id: str) -> dict[str, int] | None:
        for _attempt in range(ATTEMPTS - 1):
            try:
                return await self._storage.erase_user(scope, user_id)
            except WriteContention:  # a deadlock with a writer of the same user: nothing was done yet
                continue
        return await self._storage.erase_user(scope, user_id)
