"""The watch over watched folders: which index jobs it queues, and why."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from app.domain.outages import DatabaseUnavailable
from app.domain.principal import Principal
from app.domain.sources.folder import SourceRoot
from app.domain.sources.source import NewSource, Source, SourceKind
from app.providers import source_folders_watch
from app.providers.source_folders import PosixSourceFolders
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage, WatchedFolder
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import ReadTx
from app.usecases.sources import watch as watch_module
from app.usecases.sources.watch import WatchSources
from tests.background import until
from tests.factories import make_caller
from tests.usecases.sources.indexing import Indexing

SOON_S = 120


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter intervals than those of a worker."""
    monkeypatch.setattr(watch_module, "LIST_S", 0.1)
    monkeypatch.setattr(watch_module, "LIST_SHARE", 1)
    monkeypatch.setattr(watch_module, "PAUSE_S", 0.2)
    monkeypatch.setattr(source_folders_watch, "TICK_S", 0.1)
    monkeypatch.setattr(source_folders_watch, "CHECK_S", 0.1)
    monkeypatch.setattr(source_folders_watch, "DEBOUNCE_MS", 100)
    monkeypatch.setattr(source_folders_watch, "STEP_MS", 50)


class SilentFolders(PosixSourceFolders):
    """Real folders on a file system that tells of no change."""

    async def watch_folders(self, roots: Callable[[], Collection[SourceRoot]]) -> AsyncGenerator[set[SourceRoot], None]:
        """Yield empty sets."""
        while True:
            roots()
            yield set()
            await asyncio.sleep(0.05)


class Queue:
    """A queue that remembers what it is notified of."""

    def __init__(self) -> None:
        self.published: list[tuple[UUID, UUID]] = []

    def publish_job(self, tenant_id: UUID, job_id: UUID) -> None:
        """Remember the job."""
        self.published.append((tenant_id, job_id))

    async def wait_for(self, count: int) -> None:
        """Wait for the notifications: each comes after the commit that shows its job."""

        async def has_all() -> bool:
            return len(self.published) >= count

        await until(has_all, f"{count} notifications", SOON_S)
        assert len(self.published) == count


@asynccontextmanager
async def watching(
    indexing: Indexing, folders: PosixSourceFolders | None = None, sources: SourceStorage | None = None
) -> AsyncIterator[Queue]:
    """Watch as a worker does, until the end of the block."""
    uow, queue, stopped = indexing.app.parts.uow, Queue(), asyncio.Event()
    watch = WatchSources(
        uow,
        TenantStorage(uow),
        sources or SourceStorage(uow),
        IndexJobStorage(uow),
        folders or PosixSourceFolders([str(indexing.root.parent)]),
        queue,
        replace(indexing.app.parts.policies.defaults.sources, rescan_s=600),
    )
    task = asyncio.create_task(watch.watch_until(stopped.is_set))
    try:
        yield queue
    finally:
        stopped.set()
        await asyncio.wait_for(task, SOON_S)


async def causes(indexing: Indexing, source: Source) -> Counter[str]:
    rows = await indexing.sql.fetch("SELECT cause FROM index_jobs WHERE source_id = $1", source.id)
    return Counter(row["cause"] for row in rows)


async def run_queued(indexing: Indexing, source: Source) -> None:
    """Run the job that waits, as a worker would."""
    job_id = await indexing.sql.fetchval(
        "SELECT job_id FROM index_jobs WHERE source_id = $1 AND state = 'queued'", source.id
    )
    assert await indexing.app.jobs.run.run_job(indexing.scope.tenant_id, job_id, "tester") == "done"


async def wait_for(indexing: Indexing, source: Source, **expected: int) -> None:
    async def has_causes() -> bool:
        return await causes(indexing, source) == Counter(expected)

    await until(has_causes, f"{expected}", SOON_S)


@pytest.mark.long
async def test_a_change_is_indexed(indexing: Indexing) -> None:
    indexing.write("a.md", "Bees make honey.")
    source = await indexing.add_folder()
    await indexing.sync(source)
    async with watching(indexing) as queue:
        await wait_for(indexing, source, request=1, watch=1)  # it may have changed while nobody watched
        await run_queued(indexing, source)
        indexing.write("a.md", "Wasps make paper.")
        await wait_for(indexing, source, request=1, watch=2)
        await queue.wait_for(2)
        await run_queued(indexing, source)
    assert [text for _start, _end, text in await indexing.texts_of("a.md")] == ["Wasps make paper."]
    assert await causes(indexing, source) == Counter(request=1, watch=2)  # reading a folder is no change


async def test_a_folder_is_scanned_regularly_even_if_nothing_is_noticed(indexing: Indexing) -> None:
    folders = SilentFolders([str(indexing.root.parent)])
    fresh, old, never = [await indexing.add_folder(category=name) for name in ("knowledge", "goals", "tasks")]
    for source in (fresh, old):
        await indexing.sync(source)
    await indexing.sql.execute(
        "UPDATE index_jobs SET created_at = created_at - interval '601 s' WHERE source_id = $1", old.id
    )
    async with watching(indexing, folders):
        await wait_for(indexing, old, request=1, schedule=1)
        await wait_for(indexing, never, schedule=1)
        await asyncio.sleep(0.5)
    assert await causes(indexing, fresh) == Counter(request=1)
    assert await causes(indexing, old) == Counter(request=1, schedule=1)
    assert await causes(indexing, never) == Counter(schedule=1)


@pytest.mark.long
async def test_only_watched_folders_of_all_tenants_are_watched(indexing: Indexing) -> None:
    sources, other = SourceStorage(indexing.app.parts.uow), await make_caller(indexing.app)
    folder = NewSource("docs", SourceKind.FOLDER, "knowledge", "maya", str(indexing.root))
    seen = await sources.create_source(other.scope, folder)
    await replace(indexing, caller=other).sync(seen)
    unwatched = await sources.create_source(indexing.scope, replace(folder, watch=False))
    removed = await sources.create_source(indexing.scope, replace(folder, category="goals"))
    uploads = await sources.create_source(indexing.scope, NewSource("uploads", SourceKind.UPLOAD, "goals", "maya"))
    async with indexing.app.parts.uow.write(indexing.scope) as tx:
        await sources.mark_removed(tx, indexing.scope, removed.id)
    async with watching(indexing):
        await wait_for(indexing, seen, request=1, watch=1)
        indexing.write("a.md", "Bees make honey.")
        await asyncio.sleep(1)
    for source in (unwatched, removed, uploads):
        assert await causes(indexing, source) == Counter()


@pytest.mark.long
async def test_several_watches_queue_one_job(indexing: Indexing) -> None:
    source = await indexing.add_folder()
    await indexing.sync(source)
    async with watching(indexing), watching(indexing), watching(indexing):
        await wait_for(indexing, source, request=1, watch=1)
        for number in range(5):
            indexing.write(f"{number}.md", "Bees make honey.")
            await asyncio.sleep(0.3)
    assert await causes(indexing, source) == Counter(request=1, watch=1)


@pytest.mark.long
async def test_a_watch_survives_a_database_that_is_away(indexing: Indexing) -> None:
    class AwaySources(SourceStorage):
        away = True

        async def list_watched(self, tx: ReadTx, principal: Principal) -> list[WatchedFolder]:
            if self.away:
                raise DatabaseUnavailable
            return await super().list_watched(tx, principal)

    source, sources = await indexing.add_folder(), AwaySources(indexing.app.parts.uow)
    await indexing.sync(source)
    with capture_logs() as logs:
        async with watching(indexing, sources=sources):
            await asyncio.sleep(0.5)
            sources.away = False
            await wait_for(indexing, source, request=1, watch=1)
    assert [line["event"] for line in logs if line["event"] == "watch_failed"] == ["watch_failed"]


@pytest.mark.long
async def test_a_root_that_vanishes_and_returns_is_indexed_again(indexing: Indexing) -> None:
    indexing.write("a.md", "Bees make honey.")
    source = await indexing.add_folder()
    await indexing.sync(source)
    async with watching(indexing):
        await wait_for(indexing, source, request=1, watch=1)
        await run_queued(indexing, source)
        away = indexing.root.rename(indexing.root.with_name("away"))
        job = await indexing.sync(source)
        assert (job.state, job.progress.removed) == ("failed", 0)
        assert job.error is not None
        assert job.error.startswith("root_unavailable")
        assert await indexing.texts_of("a.md")
        (away / "a.md").write_text("Wasps make paper.")
        away.rename(indexing.root)
        await wait_for(indexing, source, watch=2, request=2)
        await run_queued(indexing, source)
    assert [text for _start, _end, text in await indexing.texts_of("a.md")] == ["Wasps make paper."]
