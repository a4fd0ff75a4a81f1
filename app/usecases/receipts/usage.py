"""Usage of a tenant by day or by user."""

from dataclasses import replace
from datetime import UTC, date, timedelta
from typing import Literal, TypeAlias

from app.domain.paging import Page, cut_page, decode_day, decode_text, encode_place
from app.domain.principal import Principal
from app.domain.receipts.usage import Usage, UsageFilter
from app.ports import Clock
from app.storage.access_log import AccessLog
from app.storage.receipts.usage import UsageStorage
from app.storage.uow import UnitOfWork

UsageBy: TypeAlias = Literal["day", "user"]

DAYS = 31
"""The days before the end that count if the first day is not named."""


class ReadUsage:
    """The use-case that adds up queries, answered tokens, writes and tokens of the chat model."""

    def __init__(self, uow: UnitOfWork, usage: UsageStorage, access: AccessLog, clock: Clock) -> None:
        self._uow = uow
        self._usage = usage
        self._access = access
        self._clock = clock

    async def list_usage(
        self, principal: Principal, by: UsageBy, filters: UsageFilter, cursor: str | None, limit: int
    ) -> Page[Usage]:
        """Return a page of at most `limit` days or users with any usage. Raise InvalidCursor.

        Without `filters.since`, the last 31 days before `filters.until` count, or those up to today.
        """
        if by == "day":
            rows = await self.read_days(principal, filters, decode_day(cursor), limit + 1)
        else:
            after = decode_text(cursor)
            await self._access.flush_pending(principal)
            async with self._uow.read_anywhere(principal) as tx:
                rows = await self._usage.list_users(tx, principal, self._with_start(filters), after, limit + 1)
        return cut_page(rows, limit, lambda row: encode_place((row.day.isoformat() if row.day else row.user_id or "",)))

    async def read_days(
        self, principal: Principal, filters: UsageFilter, before: date | None, limit: int
    ) -> list[Usage]:
        """Return the usage of at most `limit` days before `before`, newest first, as `list_usage` does."""
        await self._access.flush_pending(principal)
        async with self._uow.read_anywhere(principal) as tx:
            return await self._usage.list_days(tx, principal, self._with_start(filters), before, limit)

    def _with_start(self, filters: UsageFilter) -> UsageFilter:
        """Return the filters with a first day."""
        if filters.since is not None:
            return filters
        tomorrow = self._clock.now().astimezone(UTC).date() + timedelta(days=1)
        end = min(tomorrow, filters.until or tomorrow).toordinal()
        return replace(filters, since=date.fromordinal(max(1, end - DAYS)))
