"""Stores of blobs behind the `BlobStore` port, routed by scheme. The one in PostgreSQL is part of the storage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from uuid import UUID

from app.domain.errors import ConfigError, NotFound
from app.domain.outages import BlobStoreUnavailable
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import blob_scheme
from app.ports import BlobStore
from app.providers.addresses import is_http, is_printable_ascii


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


BlobStoreKind: TypeAlias = Literal["postgres", "s3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobStoreSettings:
    """The store of new blobs, and a bucket if there is one.

    `endpoint_url` is empty for Amazon's own. Without keys the process's own AWS identity is used.
    """

    kind: BlobStoreKind = "postgres"
    bucket: str = ""
    prefix: str = ""
    endpoint_url: str = ""
    region: str = "us-east-1"
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    timeout_s: float = 10.0


def build_blob_store(settings: BlobStoreSettings, postgres: BlobStore) -> BlobStore:
    """Return the store that `settings` name, which also reads the blobs of the other. Raise ConfigError."""
    stores: dict[str, BlobStore] = {"postgres": postgres}
    if settings.kind == "s3" or settings.bucket:
        _check_bucket(settings)
        from app.providers.blobs.s3 import S3BlobStore

        stores["s3"] = S3BlobStore(settings)
    return RoutedBlobStore(stores, settings.kind)


def _check_bucket(settings: BlobStoreSettings) -> None:
    if not settings.bucket:
        raise ConfigError("MNEMA_BLOB_S3_BUCKET: must be set, since MNEMA_BLOB_STORE is s3")
    if settings.endpoint_url and not is_http(settings.endpoint_url):
        raise ConfigError("MNEMA_BLOB_S3_ENDPOINT_URL: must be an http:// or https:// URL, or empty for Amazon's own")
    if bool(settings.access_key) != bool(settings.secret_key):
        raise ConfigError("MNEMA_BLOB_S3_ACCESS_KEY and MNEMA_BLOB_S3_SECRET_KEY: must both be set, or neither")
    for name, value in (("ACCESS_KEY", settings.access_key), ("SECRET_KEY", settings.secret_key)):
        if not is_printable_ascii(value):
            raise ConfigError(f"MNEMA_BLOB_S3_{name}: must be printable ASCII characters only")
