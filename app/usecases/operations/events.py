"""The list of operational events, and their counts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mnema_wire.overview import Event

from app.domain.filters import EventFilters
from app.domain.paging import Page, cut_page, decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.storage.access_log import AccessLog
from app.storage.operations.events import EventStorage, list_events
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


class ListEvents:
    """The use-case that lists events, so that an operator sees what happened beside how often it happened."""

    def __init__(self, uow: UnitOfWork, access: AccessLog) -> None:
        self._uow = uow
        self._access = access

    async def list_events(
        self, principal: Principal, filters: EventFilters, cursor: str | None, limit: int
    ) -> Page[Event]:
        """Return a page of at most `limit` events. Raise InvalidCursor."""
        after = decode_cursor(cursor)
        if after is None:  # a later page shows what is older than the first one
            await self._access.flush_pending(principal)
        async with self._uow.read_anywhere(principal) as tx:
            rows = await list_events(tx, principal, filters, after, limit + 1)
        return cut_page(rows, limit, lambda event: encode_cursor((event.ts, event.id)))
