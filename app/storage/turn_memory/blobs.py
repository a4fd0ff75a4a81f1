"""The ledger of blobs: an artifact can refer only to a blob that is in it."""

from collections.abc import Sequence
from datetime import datetime

from app.domain.principal import Principal
from app.storage.engine import LONG_S
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

_SQL = load_statements("turn_memory/blobs.sql")


class BlobLedger:
    """Statements on the ledger. Each method is a transaction of its own, because the contents are elsewhere."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def enter_blob(self, principal: Principal, uri: str) -> None:
        """Enter a blob that is about to be stored."""
        await self._uow.call(principal, _SQL["enter"], uri)

    async def count_orphans(self, principal: Principal, before: datetime) -> int:
        """Return the number of blobs entered before a time that no artifact refers to."""
        async with self._uow.read(principal, timeout_s=LONG_S) as tx:
            return int(await tx.fetchval(_SQL["count_orphans"], principal.tenant_id, before))

    async def remove_orphans(self, principal: Principal, before: datetime, limit: int) -> int:
        """Take at most `limit` such blobs out of the ledger and return how many. Contents in PostgreSQL go with them.

        Raise WriteContention if an artifact came to refer to one meanwhile; then none is taken out.
        """
        [row] = await self._uow.call(principal, _SQL["sweep"], before, limit)
        removed: int = row["swept"]
        return removed

    async def list_swept(self, principal: Principal, after: str, limit: int) -> list[str]:
        """Return a page of the blobs out of the ledger whose contents are still to be deleted."""
        async with self._uow.read(principal) as tx:
            return [row["uri"] for row in await tx.fetch(_SQL["swept"], principal.tenant_id, after, limit)]

    async def forget_swept(self, principal: Principal, uris: Sequence[str]) -> None:
        """Forget blobs whose contents are deleted."""
        async with self._uow.write(principal) as tx:
            await tx.execute(_SQL["forget"], principal.tenant_id, list(uris))
