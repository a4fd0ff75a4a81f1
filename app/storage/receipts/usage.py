"""Usage by day and by user: queries, answered tokens, writes, tokens of the chat model."""

from datetime import date

from app.domain.principal import Principal
from app.domain.receipts.usage import Usage, UsageFilter
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

_SQL = load_statements("receipts/usage.sql")


class UsageStorage:
    """Statements that add up usage."""

    async def list_days(
        self, tx: ReadTx, principal: Principal, filters: UsageFilter, before: date | None, limit: int
    ) -> list[Usage]:
        """Return the usage of each day before `before`, newest first, at most `limit`."""
        ends = [day for day in (filters.until, before) if day is not None]
        until = min(ends, default=None)
        rows = await tx.fetch(_SQL["by_day"], principal.tenant_id, filters.user_id, filters.since, until, limit)
        return [Usage(**row) for row in rows]

    async def list_users(
        self, tx: ReadTx, principal: Principal, filters: UsageFilter, after: str | None, limit: int
    ) -> list[Usage]:
        """Return the usage of each user behind `after`, in the order of their ids, at most `limit`."""
        days = filters.since, filters.until
        rows = await tx.fetch(_SQL["by_user"], principal.tenant_id, filters.user_id, *days, after, limit)
        return [Usage(**row) for row in rows]
