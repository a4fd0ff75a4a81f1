"""The list of operational events."""

from app.domain.filters import EventFilters
from app.domain.paging import Page, cut_page, decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.storage.access_log import AccessLog
from app.storage.operations.event_list import StoredEvent, list_events
from app.storage.uow import UnitOfWork


class ListEvents:
    """The use-case that lists events, so that an operator sees what happened beside how often it happened."""

    def __init__(self, uow: UnitOfWork, access: AccessLog) -> None:
        self._uow = uow
        self._access = access

    async def list_events(
        self, principal: Principal, filters: EventFilters, cursor: str | None, limit: int
    ) -> Page[StoredEvent]:
        """Return a page of at most `limit` events. Raise InvalidCursor."""
        after = decode_cursor(cursor)
        if after is None:  # a later page shows what is older than the first one
            await self._access.flush_pending(principal)
        async with self._uow.read_anywhere(principal) as tx:
            rows = await list_events(tx, principal, filters, after, limit + 1)
        return cut_page(rows, limit, lambda event: encode_cursor((event.ts, event.id)))
