"""mnema bench sources: the indexing of a folder of documents, and a second sync that finds nothing to do."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import SecretStr

from app.bootstrap import Application, build_application
from app.domain.principal import Principal
from app.domain.sources.index_job import IndexCause, IndexJob, IndexJobKind
from app.domain.sources.source import NewSource, Source, SourceKind
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage
from bench.counting_proxy import CountingProxy
from bench.throwaway import Site, open_site

REPORT_S = 5.0


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """The figures of a run. `second_trips`: round trips to PostgreSQL of a sync without changes, with its job."""

    files: int
    rejected: int
    chunks: int
    megabytes: float
    seconds: float
    second_s: float
    second_trips: int

    @property
    def lines(self) -> list[str]:
        """The figures as text."""
        rates = f"{self.files / self.seconds:.1f} files/s, {self.chunks / self.seconds:.1f} chunks/s"
        return [
            f"{self.files} files ({self.rejected} rejected), {self.megabytes:.1f} MB, {self.chunks} chunks",
            f"first sync: {self.seconds:.1f} s, {rates}",
            f"second sync: {self.second_s:.2f} s, {self.second_trips} round trips, nothing changed",
        ]

    def as_json(self) -> dict[str, float]:
        """Return the figures for a file."""
        return asdict(self)


def run(folder: Path, say: Callable[[str], None]) -> SourceFigures:
    """Index the folder twice in a throw-away installation with the real model."""
    with open_site(0) as site:
        return asyncio.run(_measure_folder(site, folder.resolve(), say))


async def _measure_folder(site: Site, folder: Path, say: Callable[[str], None]) -> SourceFigures:
    settings = site.home.server_settings(site.cluster)
    async with CountingProxy(settings.database_url.get_secret_value()) as proxy:
        changes = {"source_roots": [str(folder)], "database_url": SecretStr(proxy.proxy_url)}
        async with build_application(settings.model_copy(update=changes)) as app:
            scope = await app.tenancy.tenants.authenticate(site.key)
            if scope is None:
                raise RuntimeError("the tenant's key is not known")
            new = NewSource("bench", SourceKind.FOLDER, "knowledge", root_path=str(folder))
            source = await SourceStorage(app.parts.uow).create_source(scope, new)
            first, seconds = await _sync_source(app, scope, source, say)
            await _sync_source(app, scope, source, say)  # files that were young get their stamps now
            before = proxy.flights
            second, second_s = await _sync_source(app, scope, source, say)
            trips = proxy.flights - before
    done = first.progress
    if second.progress.unchanged + second.progress.rejected != first.files_total:
        raise RuntimeError(f"the second sync changed something: {second.progress}")
    size = done.bytes_read / 1_000_000
    return SourceFigures(done.files_done, done.rejected, done.chunks_added, size, seconds, second_s, second_trips=trips)


async def _sync_source(
    app: Application, scope: Principal, source: Source, say: Callable[[str], None]
) -> tuple[IndexJob, float]:
    """Run an index job as a worker does; return it and its seconds. Raise RuntimeError if it fails."""
    jobs = IndexJobStorage(app.parts.uow)
    began = time.perf_counter()
    job = await jobs.queue_job(scope, source.id, IndexJobKind.SYNC, IndexCause.REQUEST)
    assert job is not None
    watcher = asyncio.create_task(_show_progress(app, scope, job, say))
    while (outcome := await app.jobs.run.run_job(scope.tenant_id, job.job_id, "bench")) == "retry":
        pass
    seconds = time.perf_counter() - began
    watcher.cancel()
    ended = await _read_job(app, scope, job)
    if outcome != "done" or ended.error:
        raise RuntimeError(f"the index job failed: {ended.error or outcome}")
    return ended, seconds


async def _show_progress(app: Application, scope: Principal, job: IndexJob, say: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(REPORT_S)
        now = await _read_job(app, scope, job)
        say(f"{now.progress.files_done} of {now.files_total} files, {now.progress.chunks_added} chunks")


async def _read_job(app: Application, scope: Principal, job: IndexJob) -> IndexJob:
    async with app.parts.uow.read(scope) as tx:
        found = await IndexJobStorage(app.parts.uow).get_job(tx, scope, job.id)
    assert found is not None
    return found
