"""The store of blobs in a bucket of S3 or of a compatible server, through obstore."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from obstore.exceptions import BaseError
from obstore.store import S3Store

from app.domain.errors import ConfigError, NotFound
from app.domain.outages import BlobStoreUnavailable
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import blob_of_tenant, format_blob_uri
from app.transactions import refuse_inside_transaction

if TYPE_CHECKING:
    from obstore.store import S3Config

    from app.providers.blobs import BlobStoreSettings

Answer = TypeVar("Answer")
SCHEME: Final = "s3"
RETRIES: Final = 3
NO_BUCKET: Final = "NoSuchBucket"


class S3BlobStore:
    """A BlobStore in one bucket. `timeout_s` bounds each call with its retries."""

    def __init__(self, settings: "BlobStoreSettings") -> None:
        """Open nothing yet. Raise ConfigError if the library refuses the settings."""
        self._timeout_s = settings.timeout_s
        self._bucket = _open_bucket(settings)

    def blob_uri(self, tenant_id: UUID, blob_id: UUID) -> str:
        """Return `s3:<tenant id>/<blob id>`. It stays right if the objects move to another bucket."""
        return format_blob_uri(SCHEME, tenant_id, blob_id)

    async def put_blob(self, principal: Principal, uri: str, content: bytes) -> None:
        """Store the blob as one object. Raise NotFound for an address that is not this tenant's."""
        key = _object_key(principal, uri)
        await self._run_request(lambda: self._bucket.put_async(key, content, use_multipart=False))

    async def get_blob(self, principal: Principal, uri: str) -> bytes:
        """Return the blob. Raise NotFound if there is none for this tenant."""
        key = _object_key(principal, uri)
        return await self._run_request(lambda: self._read_object(key))

    async def delete_blob(self, principal: Principal, uri: str) -> None:
        """Delete the object; a missing one is no error. Raise NotFound for another tenant's address."""
        key = _object_key(principal, uri)
        with contextlib.suppress(NotFound):  # servers differ in this; Amazon's reports no missing blob
            await self._run_request(lambda: self._bucket.delete_async(key))

    async def check_health(self) -> None:
        """Ask for an object that is not there. Raise BlobStoreUnavailable if the bucket does not answer that."""
        with contextlib.suppress(NotFound):
            await self._run_request(lambda: self._read_object("health"))

    async def close(self) -> None:
        """Do nothing: the library closes idle connections itself."""

    async def _read_object(self, key: str) -> bytes:
        return bytes(await (await self._bucket.get_async(key)).bytes_async())

    async def _run_request(self, request: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer in time. Raise NotFound, BlobStoreUnavailable, or RuntimeError inside a transaction."""
        refuse_inside_transaction("blob store")
        failure: str | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                return await request()
        except TimeoutError:
            failure = f"The store of blobs did not answer within {self._timeout_s:g} s."
        except FileNotFoundError as error:
            failure = "The bucket of blobs does not exist." if NO_BUCKET in str(error) else None
        except (BaseError, OSError) as error:
            failure = f"The store of blobs failed ({type(error).__name__})."
        # Outside `except`: the library's error has the store's whole answer, so it must not become this one's context.
        raise BlobStoreUnavailable(failure) if failure else NotFound("there is no such blob")


def _open_bucket(settings: "BlobStoreSettings") -> S3Store:
    limit = timedelta(seconds=settings.timeout_s)
    config: S3Config = {"region": settings.region}
    if settings.access_key:
        config |= {"access_key_id": settings.access_key, "secret_access_key": settings.secret_key}
    if settings.endpoint_url:
        config |= {"endpoint": settings.endpoint_url}
    with contextlib.suppress(BaseError, ValueError):  # their texts may hold the key
        return S3Store(
            settings.bucket,
            prefix=settings.prefix or None,
            config=config,
            virtual_hosted_style_request=not settings.endpoint_url,
            client_options={
                "allow_http": settings.endpoint_url.startswith("http://"),
                "connect_timeout": limit,
                "timeout": limit,
            },
            retry_config={"max_retries": RETRIES, "retry_timeout": limit},
        )
    raise ConfigError("MNEMA_BLOB_S3_*: the bucket, endpoint URL, region or key is not valid")


def _object_key(principal: Principal, uri: str) -> str:
    """Return the key of the object: `<tenant id>/<blob id>`. Raise NotFound for an address of another tenant."""
    if (blob_id := blob_of_tenant(uri, SCHEME, principal.tenant_id)) is None:
        raise NotFound("there is no such blob")
    return f"{principal.tenant_id}/{blob_id}"
