"""Stores of blobs behind the `BlobStore` port. The one in PostgreSQL is part of the storage."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from app.domain.errors import ConfigError
from app.ports import BlobStore
from app.providers.addresses import is_http, is_printable_ascii
from app.providers.blobs.routed import RoutedBlobStore

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
