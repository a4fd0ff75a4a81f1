"""The counts of operational events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from app.domain.principal import Principal
from app.storage.access_log import AccessLog
from app.storage.operations.events import EventStorage
from app.storage.uow import UnitOfWork


class CountEvents:
    """The use-case that counts events, so that operators need no logs for it."""

    def __init__(self, uow: UnitOfWork, events: EventStorage, access: AccessLog) -> None:
        self._uow = uow
        self._events = events
        self._access = access

    async def count_events(
        self, principal: Principal, by: Sequence[str], since: datetime | None, until: datetime | None
    ) -> list[dict[str, Any]]:
        """Return the counts grouped by the columns `by`, from `since` (inclusive) to `until` (exclusive).

        None for a bound leaves that side open. Raise InvalidInput for an unknown column.
        """
        await self._access.flush_pending(principal)
        async with self._uow.read_anywhere(principal) as tx:
            return await self._events.count_events(tx, principal, by, since, until)
