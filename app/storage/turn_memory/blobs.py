"""The ledger of blobs (an artifact can refer only to a blob that is in it), and their store in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.errors import NotFound
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import blob_of_tenant, format_blob_uri
from app.storage.engine import LONG_S
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

SCHEME: Final = "postgres"
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


class PostgresBlobStore:
    """A BlobStore in the table `blob_contents`. A blob must be in the ledger before it is put.

    While the database does not answer, its methods raise DatabaseUnavailable.
    """

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    def blob_uri(self, tenant_id: UUID, blob_id: UUID) -> str:
        """Return `postgres:<tenant id>/<blob id>`."""
        return format_blob_uri(SCHEME, tenant_id, blob_id)

    async def put_blob(self, principal: Principal, uri: str, content: bytes) -> None:
        """Store the blob; a blob that is stored already stays as it is.

        Raise NotFound for an address that is not this tenant's, WriteContention if the blob is not in the ledger.
        """
        _check_uri(principal, uri)
        await self._uow.call(principal, _SQL["put_content"], uri, content)

    async def get_blob(self, principal: Principal, uri: str) -> bytes:
        """Return the blob. Raise NotFound if there is none for this tenant."""
        _check_uri(principal, uri)
        async with self._uow.read(principal) as tx:
            content: bytes | None = await tx.fetchval(_SQL["get_content"], principal.tenant_id, uri)
        if content is None:
            raise NotFound("there is no such blob")
        return content

    async def delete_blob(self, principal: Principal, uri: str) -> None:
        """Delete the blob's content; a missing one is no error. Raise NotFound for another tenant's address."""
        _check_uri(principal, uri)
        async with self._uow.write(principal) as tx:
            await tx.execute(_SQL["delete_content"], principal.tenant_id, uri)

    async def check_health(self) -> None:
        """Do nothing: readiness checks the database itself."""

    async def close(self) -> None:
        """Do nothing: the engine owns the connections."""


def _check_uri(principal: Principal, uri: str) -> None:
    if blob_of_tenant(uri, SCHEME, principal.tenant_id) is None:
        raise NotFound("there is no such blob")
