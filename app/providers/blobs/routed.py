"""Several stores of blobs as one: new blobs go to one of them, and each blob is read where it is."""

from collections.abc import Mapping
from uuid import UUID

from app.domain.errors import NotFound
from app.domain.outages import BlobStoreUnavailable
from app.domain.principal import Principal
from app.domain.turn_memory.blob_uris import blob_scheme
from app.ports import BlobStore


class RoutedBlobStore:
    """A BlobStore that finds the store of a blob by the first word of its address."""

    def __init__(self, stores: Mapping[str, BlobStore], default: str) -> None:
        """Take the stores by that word; `default` names the one of new blobs."""
        self._stores = stores
        self._default = stores[default]

    def blob_uri(self, tenant_id: UUID, blob_id: UUID) -> str:
        """Return an address in the default store."""
        return self._default.blob_uri(tenant_id, blob_id)

    async def put_blob(self, principal: Principal, uri: str, content: bytes) -> None:
        """Store the blob where its address says."""
        await self._find_store(uri).put_blob(principal, uri, content)

    async def get_blob(self, principal: Principal, uri: str) -> bytes:
        """Return the blob from where its address says."""
        return await self._find_store(uri).get_blob(principal, uri)

    async def delete_blob(self, principal: Principal, uri: str) -> None:
        """Delete the blob where its address says."""
        await self._find_store(uri).delete_blob(principal, uri)

    async def check_health(self) -> None:
        """Check all stores."""
        for store in self._stores.values():
            await store.check_health()

    async def close(self) -> None:
        """Close all stores."""
        for store in self._stores.values():
            await store.close()

    def _find_store(self, uri: str) -> BlobStore:
        if (scheme := blob_scheme(uri)) is None:
            raise NotFound("there is no such blob")
        if (store := self._stores.get(scheme)) is None:
            raise BlobStoreUnavailable(f"the blob is in the store {scheme!r}, which is not configured on this server")
        return store
