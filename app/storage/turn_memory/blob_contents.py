"""The store of blobs in PostgreSQL."""

from typing import Final
from uuid import UUID

from app.domain.errors import NotFound
from app.domain.principal import Principal
from app.domain.turn_memory.blob_uris import blob_of_tenant, format_blob_uri
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

SCHEME: Final = "postgres"
_SQL = load_statements("turn_memory/blobs.sql")


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
