"""The end of receipts: after their time, and with the user whom they name."""

from datetime import datetime

from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork, WriteTx

_SQL = load_statements("receipts/receipts.sql")


async def expire_receipts(
    uow: UnitOfWork, principal: Principal, before: datetime, usage_before: datetime, limit: int, *, dry_run: bool
) -> dict[str, int]:
    """Delete at most `limit` old receipts and as many old days of usage; return the numbers by table.

    If `dry_run`, only count them all.
    """
    rows = await uow.call(principal, _SQL["expire"], before, usage_before, limit, dry_run)
    counts: dict[str, int] = rows[0]["counts"]
    return counts


async def erase_receipts(tx: WriteTx, principal: Principal, user_id: str) -> dict[str, int]:
    """Delete the user's receipts and usage, and take the user's memories out of other receipts; return the counts.

    Call it in the transaction of the erasure, before the memories are deleted.
    """
    counts: dict[str, int] = await tx.fetchval(_SQL["erase"], principal.tenant_id, user_id)
    return counts
