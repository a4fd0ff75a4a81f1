"""Sources: add, list, change, synchronise and remove them, and read their index jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Final
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.categories import PROCEDURAL
from app.domain.errors import AgentNotAllowed, DuplicateText, InvalidInput, NotFound, ScopeRequired
from app.domain.idempotency import OptionalKey
from app.domain.paging import Page, cut_page, decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.domain.sources.errors import SourceExists, SourceRemoved
from app.domain.sources.folder import SourceRoot
from app.domain.sources.index_job import IndexCause, IndexJob, IndexJobKind, IndexJobState
from app.domain.sources.paths import parse_rules
from app.domain.sources.source import NewSource, Source, SourceKind, SourceStatus
from app.ports import JobQueue
from app.source_ports import SourceFolders
from app.storage.journal import Journal, KeyRecord
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage
from app.storage.uow import ReadTx, UnitOfWork, WriteTx

NO_SUCH_SOURCE: Final = "no such source"
UPLOADS: Final = "uploads"
"""The name of a source of uploads that has no other."""


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source and what it holds. `index_job`: the job that the request queued."""

    source: Source
    status: SourceStatus
    index_job: IndexJob | None = None


@dataclass(frozen=True, slots=True)
class SourceChange:
    """The new fields of a source. None keeps a field."""

    name: str | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    watch: bool | None = None


@dataclass(frozen=True)
class ManageSources:
    """The use-cases of sources. A key sees only the sources in its categories; for any other they raise NotFound."""

    uow: UnitOfWork
    sources: SourceStorage
    index_jobs: IndexJobStorage
    journal: Journal
    folders: SourceFolders
    queue: JobQueue
    policies: TenantPolicies

    async def add_source(self, principal: Principal, new: NewSource, key: OptionalKey = None) -> SourceView:
        """Add a source, and queue the index job of a folder. An empty `name` becomes that of the folder.

        Raise UnknownCategory, CategoryNotAllowed, AgentNotAllowed, InvalidInput, RootNotAllowed, RootUnavailable,
        SourceExists or IdempotencyMismatch.
        """
        new = await self._check_source(principal, new)
        if key is not None and (first := await self.journal.find_response(principal, key)) is not None:
            return await self._load_replay(principal, first)
        try:
            async with self.uow.write(principal) as tx:
                view = await self._create_source(tx, principal, new, key)
        except DuplicateText:
            raise await self._describe_conflict(principal, new) from None
        except _Replayed as replayed:
            return await self._load_replay(principal, replayed.response)
        self._publish_job(principal, view.index_job)
        return view

    async def list_sources(
        self, principal: Principal, user_id: str | None, cursor: str | None, limit: int
    ) -> Page[SourceView]:
        """Return a page of at most `limit` sources, of one user if given. Raise InvalidCursor."""
        after = decode_cursor(cursor)
        async with self.uow.read_anywhere(principal) as tx:
            rows = await self.sources.list_sources(tx, principal, user_id, after, limit + 1)
        views = [SourceView(*row) for row in rows]
        return cut_page(views, limit, lambda view: encode_cursor((view.source.created_at, view.source.id)))

    async def get_source(self, principal: Principal, source_id: UUID) -> SourceView:
        """Return a source, also one that is being removed."""
        async with self.uow.read_anywhere(principal) as tx:
            return await self._load_view(tx, principal, source_id)

    async def change_source(
        self, principal: Principal, source_id: UUID, change: SourceChange, *, is_admin: bool
    ) -> SourceView:
        """Change a source; queue an index job if its patterns changed.

        Raise InvalidInput, SourceRemoved, or ScopeRequired if only an administrator may do that.
        """
        async with self.uow.write(principal) as tx:
            stored = await self._lock_source(tx, principal, source_id)
            given = {
                name: value for name in ("name", "include", "exclude") if (value := getattr(change, name)) is not None
            }
            watch = stored.watch if change.watch is None else change.watch and stored.kind is SourceKind.FOLDER
            changed = replace(stored, **given, watch=watch)
            parse_rules(changed.include, changed.exclude)
            if stored.kind is SourceKind.FOLDER and not is_admin and changed != replace(stored, name=changed.name):
                raise ScopeRequired("the patterns and `watch` of a folder need a key with scope 'admin'")
            job = None
            if changed != stored:
                await self.sources.change_source(tx, principal, changed)
                if stored.kind is SourceKind.FOLDER and _patterns_of(changed) != _patterns_of(stored):
                    job = await self._queue_sync(tx, principal, source_id, IndexCause.REQUEST)
            view = await self._load_view(tx, principal, source_id)
        self._publish_job(principal, job)
        return replace(view, index_job=job)

    async def sync_source(self, principal: Principal, source_id: UUID) -> IndexJob:
        """Queue an index job and return it, or the one that waits already. Raise SourceRemoved."""
        async with self.uow.write(principal) as tx:
            await self._lock_source(tx, principal, source_id)
            job = await self._queue_sync(tx, principal, source_id, IndexCause.REQUEST)
        self._publish_job(principal, job)
        return job

    async def remove_source(self, principal: Principal, source_id: UUID) -> IndexJob:
        """Hide a source from queries at once, and queue the job that deletes it. Idempotent."""
        async with self.uow.write(principal) as tx:
            if await self.sources.lock_source(tx, principal, source_id) is None:
                raise NotFound(NO_SUCH_SOURCE)
            if not await self.sources.mark_removed(tx, principal, source_id):
                [newest] = await self.index_jobs.list_jobs(tx, principal, source_id, None, 1)
                if newest.state in (IndexJobState.QUEUED, IndexJobState.RUNNING):
                    return newest
            job = await self.index_jobs.queue_job(principal, source_id, IndexJobKind.REMOVAL, IndexCause.REMOVED, tx=tx)
        if job is None:
            raise NotFound(NO_SUCH_SOURCE)
        self._publish_job(principal, job)
        return job

    async def list_jobs(self, principal: Principal, source_id: UUID, cursor: str | None, limit: int) -> Page[IndexJob]:
        """Return a page of a source's index jobs, newest first. Raise InvalidCursor."""
        after = decode_cursor(cursor)
        async with self.uow.read_anywhere(principal) as tx:
            await self._require_source(tx, principal, source_id)
            rows = await self.index_jobs.list_jobs(tx, principal, source_id, after, limit + 1)
        return cut_page(rows, limit, lambda job: encode_cursor((job.created_at, job.id)))

    async def get_job(self, principal: Principal, source_id: UUID, index_job_id: UUID) -> IndexJob:
        """Return an index job of a source, with its progress."""
        async with self.uow.read_anywhere(principal) as tx:
            await self._require_source(tx, principal, source_id)
            job = await self.index_jobs.get_job(tx, principal, index_job_id)
        if job is None or job.source_id != source_id:
            raise NotFound("no such index job of this source")
        return job

    async def _check_source(self, principal: Principal, new: NewSource) -> NewSource:
        """Return a source to add with its name and the path of its root."""
        self.policies.of(principal).categories.get_category(new.category, principal)
        principal.require_categories([new.category])
        if new.category == PROCEDURAL:
            raise InvalidInput(f"category: documents cannot have the category {PROCEDURAL!r}", param="category")
        if new.agent_id is not None and principal.agents is not None and new.agent_id not in principal.agents:
            raise AgentNotAllowed(f"this key may not speak as {new.agent_id!r}")
        parse_rules(new.include, new.exclude)
        new = replace(new, agent_id=new.agent_id or principal.agent)
        if new.root_path is None:
            return replace(new, name=new.name or UPLOADS, watch=False)
        root = await self.folders.check_root(SourceRoot(principal.tenant_id, new.root_path))
        return replace(new, root_path=root, name=new.name or PurePosixPath(root).name[:200] or root)

    async def _create_source(self, tx: WriteTx, principal: Principal, new: NewSource, key: OptionalKey) -> SourceView:
        """Store a source and its first job. Raise _Replayed if another request with the same key was faster."""
        source = await self.sources.create_source(principal, new, tx=tx)
        job = None
        if source.kind is SourceKind.FOLDER:
            job = await self._queue_sync(tx, principal, source.id, IndexCause.ADDED)
        if key is not None:
            response = {"id": str(source.id), "index_job_id": str(job.id) if job else None}
            records = [KeyRecord(key, response, source.user_id)]
            if (first := (await self.journal.record(principal, [], keys=records, tx=tx)).replay) is not None:
                raise _Replayed(first)
        return replace(await self._load_view(tx, principal, source.id), index_job=job)

    async def _load_replay(self, principal: Principal, response: Mapping[str, Any]) -> SourceView:
        """Return the source that an earlier request with the same key added, and its first job."""
        async with self.uow.read(principal) as tx:
            view = await self._load_view(tx, principal, UUID(response["id"]))
            job_id = response["index_job_id"]
            job = await self.index_jobs.get_job(tx, principal, UUID(job_id)) if job_id else None
        return replace(view, index_job=job)

    async def _describe_conflict(self, principal: Principal, new: NewSource) -> SourceExists:
        """Return the error that names the existing source of the folder."""
        async with self.uow.read(principal) as tx:
            stored = await self.sources.find_folder(tx, principal, new.user_id, new.category, new.root_path or "")
        return SourceExists(f"the folder is source {stored.id} already" if stored else None)

    async def _queue_sync(self, tx: WriteTx, principal: Principal, source_id: UUID, cause: IndexCause) -> IndexJob:
        job = await self.index_jobs.queue_job(principal, source_id, IndexJobKind.SYNC, cause, tx=tx)
        if job is None:
            raise NotFound(NO_SUCH_SOURCE)
        return job

    async def _lock_source(self, tx: WriteTx, principal: Principal, source_id: UUID) -> Source:
        """Lock and return a source. Raise NotFound or SourceRemoved."""
        source = await self.sources.lock_source(tx, principal, source_id)
        if source is None:
            raise NotFound(NO_SUCH_SOURCE)
        if source.removed_at is not None:
            raise SourceRemoved()
        return source

    async def _require_source(self, tx: ReadTx, principal: Principal, source_id: UUID) -> None:
        if await self.sources.get_source(tx, principal, source_id) is None:
            raise NotFound(NO_SUCH_SOURCE)

    async def _load_view(self, tx: ReadTx, principal: Principal, source_id: UUID) -> SourceView:
        found = await self.sources.get_status(tx, principal, source_id)
        if found is None:
            raise NotFound(NO_SUCH_SOURCE)
        return SourceView(*found)

    def _publish_job(self, principal: Principal, job: IndexJob | None) -> None:
        if job is not None:
            self.queue.publish_job(principal.tenant_id, job.job_id)


class _Replayed(Exception):
    """An earlier request with the same idempotency key gave this response."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        self.response = response
        super().__init__()


def _patterns_of(source: Source) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return source.include, source.exclude
