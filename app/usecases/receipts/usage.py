"""Usage of a tenant by day or by user."""

from typing import Literal, TypeAlias

from app.domain.paging import Page, cut_page, decode_day, decode_text, encode_place
from app.domain.principal import Principal
from app.domain.receipts.usage import Usage, UsageFilter
from app.storage.access_log import AccessLog
from app.storage.receipts.usage import UsageStorage
from app.storage.uow import UnitOfWork

UsageBy: TypeAlias = Literal["day", "user"]


class ReadUsage:
    """The use-case that adds up queries, answered tokens, writes and tokens of the chat model."""

    def __init__(self, uow: UnitOfWork, usage: UsageStorage, access: AccessLog) -> None:
        self._uow = uow
        self._usage = usage
        self._access = access

    async def list_usage(
        self, principal: Principal, by: UsageBy, filters: UsageFilter, cursor: str | None, limit: int
    ) -> Page[Usage]:
        """Return a page of at most `limit` days or users with any usage. Raise InvalidCursor."""
        if by == "day":
            before = decode_day(cursor)
            await self._access.flush_pending(principal)
            async with self._uow.read(principal) as tx:
                rows = await self._usage.list_days(tx, principal, filters, before, limit + 1)
        else:
            after = decode_text(cursor)
            await self._access.flush_pending(principal)
            async with self._uow.read(principal) as tx:
                rows = await self._usage.list_users(tx, principal, filters, after, limit + 1)
        return cut_page(rows, limit, lambda row: encode_place((row.day.isoformat() if row.day else row.user_id or "",)))
