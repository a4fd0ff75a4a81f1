"""The watch over the folders of all tenants: index jobs are queued soon after a change, and regularly."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog

from app.domain.errors import MnemaError, NotFound
from app.domain.principal import Principal
from app.domain.sources.folder import SourceRoot
from app.domain.sources.index_job import IndexCause, IndexJobKind
from app.domain.sources.source_policy import SourcePolicy
from app.ports import JobQueue
from app.source_ports import SourceFolders
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage, WatchedFolder
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork

LIST_S: Final = 5.0
LIST_SHARE: Final = 20
"""The list of folders is read anew after LIST_S, but after 20 times as long as reading it takes if that is longer."""
PAUSE_S: Final = 3.0
"""The least time between two jobs that changes of one source cause."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WatchSources:
    """The use-case that queues index jobs of watched folders.

    Several processes may watch the same folders: a job that waits already is not queued twice.
    """

    uow: UnitOfWork
    tenants: TenantStorage
    sources: SourceStorage
    index_jobs: IndexJobStorage
    folders: SourceFolders
    queue: JobQueue
    policy: SourcePolicy

    async def watch_until(self, stopped: Callable[[], bool]) -> None:
        """Queue index jobs until `stopped` returns True. Errors of the database are logged, and nothing is lost."""
        watch = _Watch()
        loop = asyncio.get_running_loop()
        async with aclosing(self.folders.watch_folders(watch.roots)) as changes:
            async for changed in changes:
                if stopped():
                    return
                watch.note_changes(changed)
                try:
                    if loop.time() >= watch.list_at:
                        await self._refresh_list(watch)
                    await self._queue_jobs(watch, IndexCause.WATCH, watch.due_changes(loop.time()))
                    await self._queue_jobs(watch, IndexCause.SCHEDULE, watch.due_scans(self.policy.rescan_s))
                    watch.failing = False
                except MnemaError as error:
                    if not watch.failing:
                        log.warning("watch_failed", code=error.code, detail=error.detail)
                    watch.failing = True

    async def _refresh_list(self, watch: "_Watch") -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        watched = list[WatchedFolder]()
        for tenant in await self.tenants.list_reachable_tenants():
            principal = Principal(tenant.id)
            async with self.uow.read(principal) as tx:
                watched += await self.sources.list_watched(tx, principal)
        watch.take_list(watched)
        watch.list_at = loop.time() + max(LIST_S, LIST_SHARE * (loop.time() - began))

    async def _queue_jobs(self, watch: "_Watch", cause: IndexCause, folders: Iterable[WatchedFolder]) -> None:
        for folder in folders:
            principal = Principal(folder.root.tenant_id)
            try:
                job = await self.index_jobs.queue_job(principal, folder.source_id, IndexJobKind.SYNC, cause)
            except NotFound:  # the tenant was deleted meanwhile
                job = None
            watch.note_job(folder, asyncio.get_running_loop().time())
            if job is not None:
                self.queue.publish_job(principal.tenant_id, job.job_id)


class _Watch:
    """The state of a watch: the folders, those that changed, and when each had its last job."""

    def __init__(self) -> None:
        self.list_at = 0.0
        self.failing = False
        self._watched: dict[UUID, WatchedFolder] = {}
        self._changed: set[UUID] = set()
        self._queued_at: dict[UUID, float] = {}
        self._scans: list[WatchedFolder] = []

    def roots(self) -> set[SourceRoot]:
        """Return the roots to watch."""
        return {folder.root for folder in self._watched.values()}

    def take_list(self, watched: Iterable[WatchedFolder]) -> None:
        """Replace the list of folders."""
        self._watched = {folder.source_id: folder for folder in watched}
        self._scans = list(self._watched.values())
        self._changed &= self._watched.keys()
        self._queued_at = {known: at for known, at in self._queued_at.items() if known in self._watched}

    def note_changes(self, roots: set[SourceRoot]) -> None:
        """Remember the sources of roots that changed."""
        if roots:
            self._changed |= {known for known, folder in self._watched.items() if folder.root in roots}

    def note_job(self, folder: WatchedFolder, now: float) -> None:
        """Note that a job of a source was queued, or that it is not needed."""
        self._changed.discard(folder.source_id)
        self._queued_at[folder.source_id] = now
        self._scans = [other for other in self._scans if other.source_id != folder.source_id]

    def due_changes(self, now: float) -> list[WatchedFolder]:
        """Return the folders that changed and had no job for PAUSE_S."""
        due = (known for known in self._changed if now - self._queued_at.get(known, -PAUSE_S) >= PAUSE_S)
        return [self._watched[known] for known in due]

    def due_scans(self, rescan_s: float) -> list[WatchedFolder]:
        """Return the folders of the last list that had no job for `rescan_s`."""
        return [folder for folder in self._scans if folder.idle_s is None or folder.idle_s >= rescan_s]
