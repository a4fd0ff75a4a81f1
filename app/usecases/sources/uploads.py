"""The files of sources: list them, upload, download and delete them."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from uuid import UUID

from app.domain.errors import BodyTooLarge, InvalidInput, NotFound, TooManyFiles
from app.domain.outages import TenantBusy
from app.domain.paging import Page, cut_page, decode_text, encode_place
from app.domain.principal import Principal
from app.domain.sources.document import DocumentKind, find_extension, find_kind
from app.domain.sources.errors import DocumentQuotaExceeded, SourceRemoved, UnsupportedDocument, WrongSourceKind
from app.domain.sources.index_job import IndexCause, IndexJob, IndexJobKind
from app.domain.sources.paths import parse_rules, split_path
from app.domain.sources.source import FileState, Source, SourceFile, SourceKind, hash_content
from app.domain.sources.source_policy import SourcePolicy
from app.ports import Clock, JobQueue
from app.storage.engine import LONG_S
from app.storage.sources.files import FileStorage
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage
from app.storage.sources.uploads import Upload, UploadStorage
from app.storage.uow import ReadTx, UnitOfWork, WriteTx
from app.usecases.offload import offload_if_large
from app.usecases.sources.manage import NO_SUCH_SOURCE
from app.usecases.turn_memory.blobs import StoreBlobs

NO_SUCH_FILE: Final = "no such file in this source"
ATTEMPTS: Final = 3
MAX_DOWNLOADS: Final = 4
"""The most contents of a tenant that are sent at the same time: each is in memory until the client has read it."""
UploadAction: TypeAlias = Literal["created", "replaced", "unchanged"]


@dataclass(frozen=True, slots=True)
class UploadOutcome:
    """An uploaded file. `unchanged`: the source has this content already, and no job was queued."""

    file: SourceFile
    action: UploadAction
    index_job: IndexJob | None = None


@dataclass(frozen=True)
class ManageFiles:
    """The use-cases of files. A key sees the files of sources in its categories; for any other they raise NotFound."""

    uow: UnitOfWork
    sources: SourceStorage
    files: UploadStorage
    stored: FileStorage
    index_jobs: IndexJobStorage
    blobs: StoreBlobs
    queue: JobQueue
    policy: SourcePolicy
    clock: Clock
    _downloads: Counter[UUID] = field(default_factory=Counter, init=False)

    async def list_files(
        self, principal: Principal, source_id: UUID, state: FileState | None, cursor: str | None, limit: int
    ) -> Page[SourceFile]:
        """Return a page of at most `limit` files by path, of those in a state if it is given. Raise InvalidCursor."""
        after = decode_text(cursor)
        async with self.uow.read_anywhere(principal) as tx:
            await self._require_source(tx, principal, source_id)
            rows = await self.files.list_files(tx, principal, source_id, state, after, limit + 1)
        return cut_page(rows, limit, lambda file: encode_place((file.path,)))

    async def get_file(self, principal: Principal, source_id: UUID, file_id: UUID) -> SourceFile:
        """Return a file of a source."""
        async with self.uow.read_anywhere(principal) as tx:
            await self._require_source(tx, principal, source_id)
            file = await self.files.get_file(tx, principal, source_id, file_id)
        if file is None:
            raise NotFound(NO_SUCH_FILE)
        return file

    async def check_upload(self, principal: Principal, source_id: UUID, path: str) -> None:
        """Raise what `upload_file` raises for the source and the path. Call it before the content is read."""
        _check_path(path)
        async with self.uow.read(principal) as tx:
            source = await self._require_source(tx, principal, source_id)
        _check_source(source, path)

    async def upload_file(self, principal: Principal, source_id: UUID, path: str, content: bytes) -> UploadOutcome:
        """Store a file and queue the index job. Nothing is done if the source has the same content for the path.

        Raise InvalidInput (path), UnsupportedDocument, BodyTooLarge, SourceRemoved, WrongSourceKind,
        DocumentQuotaExceeded, TooManyFiles, BlobStoreUnavailable or WriteContention.
        """
        kind = _check_path(path)
        if len(content) > self.policy.max_file_bytes:
            raise BodyTooLarge(f"at most {self.policy.max_file_bytes} bytes a file")
        digest = await offload_if_large(len(content), hash_content, content)
        async with self.uow.read(principal) as tx:
            source = await self._require_source(tx, principal, source_id)
            _check_source(source, path)
            if (stored := await self.files.find_file(tx, principal, source_id, path)) and stored.hash == digest:
                return UploadOutcome(stored, "unchanged")
            await self._check_quota(tx, principal, source_id, path, len(content))
        uri = await self.blobs.store_blob(principal, source.user_id, content)
        upload = Upload(path, kind, len(content), digest, uri, self.clock.now())
        async with self.uow.write(principal) as tx:
            outcome = await self._store_upload(tx, principal, source_id, upload)
        if outcome.index_job is not None:
            self.queue.publish_job(principal.tenant_id, outcome.index_job.job_id)
        return outcome

    async def delete_file(self, principal: Principal, source_id: UUID, file_id: UUID) -> None:
        """Delete an uploaded file with its chunks in one transaction. Raise SourceRemoved or WrongSourceKind."""
        async with self.uow.read(principal) as tx:
            source = await self._require_source(tx, principal, source_id)
        if source.kind is not SourceKind.UPLOAD:
            raise WrongSourceKind("Files of a folder cannot be deleted; exclude them with the patterns of the source.")
        async with self.uow.write(principal, timeout_s=LONG_S) as tx:
            await self.files.lock_user(tx, principal, source.user_id)
            await self.sources.lock_source(tx, principal, source_id)
            file = await self.files.get_file(tx, principal, source_id, file_id)
            if file is None:
                raise NotFound(NO_SUCH_FILE)
            chunks = await self.files.list_chunks(tx, principal, file_id)
            await self.stored.purge_chunks(tx, principal, chunks, principal.actor_name)
            await self.stored.delete_file(tx, principal, file_id)
            if file.hosted_uri is not None:
                await self.files.discard_blob(tx, principal, file.hosted_uri)

    @asynccontextmanager
    async def open_content(
        self, principal: Principal, source_id: UUID, file_id: UUID
    ) -> AsyncIterator[tuple[SourceFile, bytes]]:
        """Yield an uploaded file and its content. Raise NotFound, TenantBusy or BlobStoreUnavailable."""
        tenant = principal.tenant_id
        if self._downloads[tenant] >= MAX_DOWNLOADS:
            raise TenantBusy(f"{MAX_DOWNLOADS} files of this tenant are being sent; try again when one has ended")
        self._downloads[tenant] += 1
        try:
            yield await self._read_content(principal, source_id, file_id)
        finally:
            self._downloads[tenant] -= 1
            if not self._downloads[tenant]:
                del self._downloads[tenant]

    async def _read_content(self, principal: Principal, source_id: UUID, file_id: UUID) -> tuple[SourceFile, bytes]:
        for _attempt in range(ATTEMPTS - 1):
            try:
                return await self._read_blob(principal, source_id, file_id)
            except _ReplacedBlob:
                continue
        return await self._read_blob(principal, source_id, file_id)

    async def _read_blob(self, principal: Principal, source_id: UUID, file_id: UUID) -> tuple[SourceFile, bytes]:
        file = await self.get_file(principal, source_id, file_id)
        if file.hosted_uri is None:
            raise NotFound("this file is read from its folder; Mnema keeps no copy of it")
        try:
            return file, await self.blobs.read_blob(principal, file.hosted_uri)
        except NotFound as error:  # another content was uploaded meanwhile
            raise _ReplacedBlob(NO_SUCH_FILE) from error

    async def _store_upload(self, tx: WriteTx, principal: Principal, source_id: UUID, upload: Upload) -> UploadOutcome:
        source = await self.sources.lock_source(tx, principal, source_id)
        if source is None:
            raise NotFound(NO_SUCH_SOURCE)
        _check_source(source, upload.path)
        stored = await self.files.find_file(tx, principal, source_id, upload.path)
        if stored is not None and stored.hash == upload.hash:  # uploaded twice at the same time
            await self.files.discard_blob(tx, principal, upload.uri)
            return UploadOutcome(stored, "unchanged")
        await self._check_quota(tx, principal, source_id, upload.path, upload.size)
        file = await self.files.put_upload(tx, principal, source, upload)
        if stored is not None and stored.hosted_uri is not None:
            await self.files.discard_blob(tx, principal, stored.hosted_uri)
        job = await self.index_jobs.queue_job(principal, source_id, IndexJobKind.SYNC, IndexCause.UPLOAD, tx=tx)
        return UploadOutcome(file, "created" if stored is None else "replaced", job)

    async def _check_quota(self, tx: ReadTx, principal: Principal, source_id: UUID, path: str, size: int) -> None:
        usage = await self.files.read_usage(tx, principal, source_id, path)
        policy = self.policy
        if usage.files >= policy.max_files:
            raise TooManyFiles(f"a source has at most {policy.max_files} files")
        if usage.bytes + size > policy.tenant_bytes:
            most = f"{usage.bytes} of {policy.tenant_bytes} bytes are used"
            raise DocumentQuotaExceeded(f"{most}, and the file has {size}; delete files or sources first")

    async def _require_source(self, tx: ReadTx, principal: Principal, source_id: UUID) -> Source:
        source = await self.sources.get_source(tx, principal, source_id)
        if source is None:
            raise NotFound(NO_SUCH_SOURCE)
        return source


class _ReplacedBlob(NotFound, code="not_found"):
    """The blob of a file is gone."""


def _check_path(path: str) -> DocumentKind:
    """Return the kind of document of a path. Raise InvalidInput or UnsupportedDocument."""
    if not split_path(path):
        raise InvalidInput("path: name the file below the root of the source, such as guides/setup.md")
    if (kind := find_kind(path)) is None:
        raise UnsupportedDocument(f"no parser reads files with the extension .{find_extension(path)}")
    return kind


def _check_source(source: Source, path: str) -> None:
    """Raise SourceRemoved, WrongSourceKind, or InvalidInput for a path that the source's patterns leave out."""
    if source.removed_at is not None:
        raise SourceRemoved()
    if source.kind is not SourceKind.UPLOAD:
        raise WrongSourceKind()
    if not parse_rules(source.include, source.exclude).takes_file(split_path(path)):
        raise InvalidInput("path: the patterns of the source leave this file out")
