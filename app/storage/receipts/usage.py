"""Usage by day and by user: queries, answered tokens, writes, tokens of the chat model."""

from datetime import date, timedelta

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
        """Return the usage of each day before `before`, newest first, at most `limit`.

        It reads as many days as it returns, and those without usage between them.
        """
        user_id = principal.reach(filters.user_id)
        kept = await tx.fetchrow(_SQL["span"], principal.tenant_id)
        if kept is None or kept["first"] is None:
            return []
        first = max(kept["first"], filters.since or date.min)
        end = min(kept["last"] + timedelta(days=1), filters.until or date.max, before or date.max)
        found: list[Usage] = []
        span = limit
        while first < end and len(found) < limit:
            start = end - timedelta(days=min(span, (end - first).days))
            rows = await tx.fetch(_SQL["by_day"], principal.tenant_id, user_id, start, end)
            found += [Usage(**row) for row in rows]
            end, span = start, span if rows else 2 * span
        return found[:limit]

    async def list_users(
        self, tx: ReadTx, principal: Principal, filters: UsageFilter, after: str | None, limit: int
    ) -> list[Usage]:
        """Return the usage of each user behind `after`, in the order of their ids, at most `limit`."""
        user_id = principal.reach(filters.user_id)
        rows = await tx.fetch(_SQL["by_user"], principal.tenant_id, user_id, filters.since, filters.until, after, limit)
        return [Usage(**row) for row in rows]
