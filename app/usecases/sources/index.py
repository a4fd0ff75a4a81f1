"""Index jobs: bring the chunks of a source into step with its files, or delete a removed source.

A job may be killed anywhere: each file is one transaction with the job's progress, and the next run compares again.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, Final
from uuid import UUID

from app.domain.errors import MnemaError, RootNotAllowed, RootUnavailable, TerminalJobError, TooManyFiles
from app.domain.jobs.job import Deferral, Job, JobKind, NewJob
from app.domain.principal import Principal
from app.domain.sources.document import ParsedDocument
from app.domain.sources.errors import FolderEmpty
from app.domain.sources.index_job import IndexJob, IndexJobKind
from app.domain.sources.source import SourceKind
from app.domain.sources.source_policy import SourcePolicy
from app.domain.sources.sync_plan import KnownFile, PlannedFile, SyncPlan, plan_folder, plan_uploads
from app.source_ports import SourceFolders
from app.storage.jobs.jobs import JobStorage
from app.storage.sources.files import FileStorage
from app.storage.sources.index_jobs import Beginning, IndexJobStorage
from app.storage.sources.sources import SourceStorage
from app.storage.uow import UnitOfWork, WriteTx
from app.usecases.sources.index_run import HeldTransactions, IndexRun, QuotaTally, SourceRemoved
from app.usecases.sources.read_files import ReadFile, ReadFiles
from app.usecases.sources.store_files import StoreFiles

BUSY_S: Final = 2.0
"""The wait of a job while another one of its source runs."""
GROUP_CHUNKS: Final = 128
GROUP_FILES: Final = 64
"""The chunks or files after which a group is stored. A job that is killed loses the work of one group at most."""
FINAL_ERRORS: Final = (RootNotAllowed, RootUnavailable, TooManyFiles, FolderEmpty)
"""Errors of a source that end its job: another attempt would find the same."""
REMOVED_AT_ONCE: Final = 100
KEPT_JOBS: Final = 200
"""The newest jobs of a source that are kept. A watched folder has at least one every `rescan_s`."""
MANY_CHUNKS: Final = 500
"""New chunks after which the approximate index gets them at once, and not from the hourly job."""


class IndexSources:
    """The use-case behind the jobs of kind `index_source`."""

    def __init__(
        self,
        uow: UnitOfWork,
        sources: SourceStorage,
        files: FileStorage,
        index_jobs: IndexJobStorage,
        jobs: JobStorage,
        folders: SourceFolders,
        read: ReadFiles,
        store: StoreFiles,
        policy: SourcePolicy,
    ) -> None:
        self._uow = uow
        self._sources = sources
        self._files = files
        self._index_jobs = index_jobs
        self._jobs = jobs
        self._folders = folders
        self._read = read
        self._store = store
        self._policy = policy
        self._held = HeldTransactions(uow, index_jobs)

    async def run_job(self, principal: Principal, job: Job) -> Mapping[str, Any]:
        """Run or resume an index job and return its counts.

        Raise Deferral while another job of the source runs and at the end of a slice. Raise EmbedderUnavailable,
        DatabaseUnavailable or BlobStoreUnavailable: what is stored stays, and the next attempt goes on.
        """
        index_job_id = _index_job_id(job)
        beginning = await self._index_jobs.begin_job(principal, index_job_id)
        if beginning is Beginning.BUSY:
            raise Deferral(BUSY_S, "another index job of the source runs")
        if beginning is Beginning.ENDED or (run := await self._open_run(principal, job, index_job_id)) is None:
            return {"why": "ended"}
        try:
            if run.index_job.kind is IndexJobKind.REMOVAL:
                return await self._remove_source(run)
            return await self._sync_source(run)
        except SourceRemoved:
            return await self._end_job(run, "source_removed: the source was removed", removal=True)
        except FINAL_ERRORS as error:
            return await self._end_job(run, _describe(error))

    async def _open_run(self, principal: Principal, job: Job, index_job_id: UUID) -> IndexRun | None:
        async with self._uow.read(principal) as tx:
            index_job = await self._index_jobs.get_job(tx, principal, index_job_id)
            source = await self._sources.get_source(tx, principal, index_job.source_id) if index_job else None
        if index_job is None or source is None:
            return None
        until = asyncio.get_running_loop().time() + self._policy.slice_s
        return IndexRun(principal, source, index_job, job.worker or "", self._policy, until)

    async def _sync_source(self, run: IndexRun) -> Mapping[str, Any]:
        plan, quota, skipped = await self._plan_sync(run)
        unembedded = await self._index_files(run, plan, quota)
        for known in plan.gone:
            run.check_time()
            await self._store.delete_file(run, known)
        unread = f"folder_unreadable: {skipped} folders cannot be read; their files stay as they were"
        report = await self._end_job(run, unread if skipped else None)
        if unembedded or report.get("chunks_added", 0) >= MANY_CHUNKS:
            await self._jobs.enqueue_jobs(run.principal, [NewJob(JobKind.embed)])
        return report

    async def _plan_sync(self, run: IndexRun) -> tuple[SyncPlan, QuotaTally, int]:
        """Return what is to do, the quota, and the number of folders that cannot be read."""
        scan = None
        source = run.source
        principal = run.principal
        if source.kind is SourceKind.FOLDER:
            scan = await self._folders.scan_folder(run.root, source.include, source.exclude, self._policy.max_files)
        async with self._uow.read(principal) as tx:
            usage = await self._sources.read_usage(tx, principal)
            settings = self._policy.fingerprint
            known = await self._files.compare_files(tx, principal, source.id, settings, run.index_job.id)
        if scan is not None and known and not scan.files and not await self._folders.list_folder(run.root, "", "", 1):
            raise FolderEmpty
        quota = QuotaTally(usage, self._policy)
        plan = plan_uploads(known, quota.room) if scan is None else plan_folder(scan, known, quota.room)
        todo = len(plan.todo) + len(plan.gone)

        async def record_plan(tx: WriteTx) -> None:
            await self._index_jobs.record_plan(tx, principal, run.index_job.id, todo, plan.unchanged, plan.rejected)

        await self._held.run_held(run, record_plan)
        return plan, quota, len(scan.skipped_folders) if scan else 0

    async def _index_files(self, run: IndexRun, plan: SyncPlan, quota: QuotaTally) -> bool:
        """Read, parse, embed and store the files of the plan. Return True if chunks were stored without vectors."""
        unembedded = False
        async with aclosing(self._read_groups(run, plan.todo)) as groups:
            async for group in groups:
                unembedded |= await self._store.store_group(run, group, quota)
                run.check_time()
        return unembedded

    async def _read_groups(self, run: IndexRun, files: Sequence[PlannedFile]) -> AsyncGenerator[list[ReadFile], None]:
        group = list[ReadFile]()
        chunks = 0
        async with aclosing(self._read.read_ahead(run, files)) as found:
            async for file in found:
                group.append(file)
                chunks += len(file.result.chunks) if isinstance(file.result, ParsedDocument) else 0
                if chunks >= GROUP_CHUNKS or len(group) >= GROUP_FILES:
                    yield group
                    group = []
                    chunks = 0
        if group:
            yield group

    async def _remove_source(self, run: IndexRun) -> Mapping[str, Any]:
        """Delete the files one by one, then the source with its index jobs."""
        after = ""
        while files := await self._next_files(run, after):
            for known in files:
                run.check_time()
                await self._store.delete_file(run, known, removal=True)
            after = files[-1].path

        async def delete_source(tx: WriteTx) -> IndexJob | None:
            job = await self._index_jobs.get_job(tx, run.principal, run.index_job.id)
            await self._sources.delete_source(tx, run.principal, run.source.id)
            return job

        job = await self._held.run_held(run, delete_source, removal=True)
        return {"source": str(run.source.id), **(asdict(job.progress) if job else {})}

    async def _next_files(self, run: IndexRun, after: str) -> list[KnownFile]:
        async with self._uow.read(run.principal) as tx:
            return await self._files.next_files(tx, run.principal, run.source.id, after, REMOVED_AT_ONCE)

    async def _end_job(self, run: IndexRun, error: str | None, *, removal: bool = False) -> Mapping[str, Any]:
        async def end_job(tx: WriteTx) -> IndexJob | None:
            await self._index_jobs.end_job(tx, run.principal, run.index_job.id, error)
            await self._index_jobs.forget_jobs(tx, run.principal, run.source.id, KEPT_JOBS)
            return await self._index_jobs.get_job(tx, run.principal, run.index_job.id)

        job = await self._held.run_held(run, end_job, removal=removal)
        counts = asdict(job.progress) if job else {}
        return counts if error is None else {**counts, "error": error}


def _index_job_id(job: Job) -> UUID:
    try:
        return UUID(str(job.payload["index_job_id"]))
    except (KeyError, ValueError) as error:
        raise TerminalJobError("the payload needs an index_job_id (a UUID)") from error


def _describe(error: MnemaError) -> str:
    """Return the code and the meaning of an error. Its detail may name a path."""
    return f"{error.code}: {' '.join((type(error).__doc__ or '').split())}"
