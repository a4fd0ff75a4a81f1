"""The ledger of blobs: an artifact can refer only to a blob that is in it."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.domain.principal import Principal
from app.storage.engine import LONG_S
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

_SQL = load_statements("turn_memory/blobs.sql")


class SweptBlob(NamedTuple):
    """A blob that has left the ledger. `deleted`: its content was deleted at least once."""

    uri: str
    deleted: bool


class BlobLedger:
    """Statements on the ledger. Each method is a transaction of its own, because the contents are elsewhere."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def enter_blob(self, principal: Principal, user_id: str, uri: str) -> None:
        """Enter a blob of a user that is about to be stored."""
        await self._uow.call(principal, _SQL["enter"], user_id, uri)

    async def count_orphans(self, principal: Principal, before: datetime) -> int:
        """Return the number of blobs entered before a time that no artifact refers to."""
        async with self._uow.read(principal, timeout_s=LONG_S) as tx:
            return int(await tx.fetchval(_SQL["count_orphans"], principal.tenant_id, before))

    async def remove_orphans(self, principal: Principal, before: datetime, limit: int) -> int:
        """Take at most `limit` such blobs out of the ledger; return how many. Contents in PostgreSQL are deleted too.

        Raise WriteContention if an artifact refers to one by now; then none is taken out.
        """
        [row] = await self._uow.call(principal, _SQL["sweep"], before, limit)
        removed: int = row["swept"]
        return removed

    async def list_swept(self, principal: Principal, before: datetime, after: str, limit: int) -> list[SweptBlob]:
        """Return a page of the blobs out of the ledger whose contents are to be deleted.

        List a blob once when it has left the ledger, and again if it left before a time.
        """
        async with self._uow.read(principal) as tx:
            rows = await tx.fetch(_SQL["swept"], principal.tenant_id, before, after, limit)
        return [SweptBlob(row["uri"], row["deleted"]) for row in rows]

    async def note_deleted(self, principal: Principal, before: datetime, uris: Sequence[str]) -> None:
        """Note that the contents of blobs are deleted; forget those that left the ledger before a time."""
        async with self._uow.write(principal) as tx:
            await tx.execute(_SQL["forget"], principal.tenant_id, before, list(uris))
