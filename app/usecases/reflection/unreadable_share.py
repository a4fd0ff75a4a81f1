"""The share of the day's tokens that unreadable answers may take, read seldom."""

import time
from collections import OrderedDict
from datetime import date, datetime
from typing import Final, TypeAlias
from uuid import UUID

from app.domain.days import start_of_day
from app.domain.principal import Principal
from app.domain.reflection.model_usage import LlmPolicy
from app.storage.reflection.model_calls import ModelCallStorage, Spent

FRESH_S: Final = 60.0
"""Seconds for which a share that was not spent counts as not spent, because other processes spend it too."""
MAX_KNOWN: Final = 10_000
Owner: TypeAlias = tuple[UUID, str | None]


class UnreadableShare:
    """The shares of the tenants and users that this process works for.

    The sum is read again after each unreadable answer of this process. So a process has at most one unreadable answer
    more than if it read the sum before each call.
    """

    def __init__(self, storage: ModelCallStorage, policy: LlmPolicy) -> None:
        self._storage = storage
        self._policy = policy
        self._unspent: OrderedDict[Owner, tuple[date, float]] = OrderedDict()

    async def find_spent(self, principal: Principal, user_id: str | None, now: datetime) -> Spent | None:
        """Return whose share of today's tokens unreadable answers took; None if there is some left."""
        owner = principal.tenant_id, user_id
        known = self._unspent.get(owner)
        if known is not None and known[0] == now.date() and time.monotonic() < known[1]:
            return None
        spent = await self._storage.find_wasted_share(principal, user_id, start_of_day(now), self._policy)
        if spent is None:
            self._unspent[owner] = now.date(), time.monotonic() + FRESH_S
            self._unspent.move_to_end(owner)
            if len(self._unspent) > MAX_KNOWN:
                self._unspent.popitem(last=False)
        return spent

    def note_unreadable(self, principal: Principal) -> None:
        """Read the sums of a tenant again before its next calls."""
        for owner in [one for one in self._unspent if one[0] == principal.tenant_id]:
            del self._unspent[owner]
