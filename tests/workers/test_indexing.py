"""Real workers index a folder of real documents, killed twice on the way."""

from functools import partial
from pathlib import Path

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.jobs.job import JobState
from app.domain.principal import Principal
from app.domain.sources.index_job import IndexCause, IndexJob, IndexJobKind, Progress
from app.domain.sources.source import NewSource, Source, SourceKind
from app.storage.jobs.jobs import JobStorage
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage
from tests.background import background, kill_group, until
from tests.conftest import Database
from tests.parsing.made_documents import make_docx, make_pdf
from tests.redis_server import RedisServer
from tests.usecases.sources.indexing import check_whole
from tests.workers.queueing import reaches

pytestmark = pytest.mark.xdist_group("workers")
WORDS = "The harbour of number {n} has a lighthouse, three boats and a keeper who counts the waves. "


def write_documents(root: Path) -> int:
    """Write documents of many kinds; return how many."""
    for folder in ("text", "pages", "papers", "code"):
        (root / folder).mkdir(parents=True)
    for n in range(120):
        words = WORDS.format(n=n)
        (root / f"text/{n}.md").write_text(f"# Harbour {n}\n\n{words * 8}\n\n## Boats\n\n{words * 8}\n")
    for n in range(60):
        words = WORDS.format(n=n)
        (root / f"pages/{n}.html").write_text(f"<h1>Page {n}</h1><p>{words * 6}</p><h2>More</h2><p>{words}</p>")
        (root / f"code/{n}.py").write_text(f'def count_waves_{n}():\n    """{words}"""\n    return {n}\n')
    for n in range(20):
        words = WORDS.format(n=n)
        (root / f"papers/{n}.pdf").write_bytes(make_pdf([words, words]))
        (root / f"papers/{n}.docx").write_bytes(make_docx([(1, f"Paper {n}"), (0, words)]))
    (root / "papers/broken.pdf").write_bytes(b"%PDF-1.7 and nothing more")
    return 281


async def queue_sync(app: Application, scope: Principal, source: Source) -> IndexJob:
    """Queue a sync as a request does."""
    job = await IndexJobStorage(app.parts.uow).queue_job(scope, source.id, IndexJobKind.SYNC, IndexCause.REQUEST)
    assert job is not None
    return job


async def read_job(app: Application, scope: Principal, job: IndexJob) -> IndexJob:
    """Return the job as it is now."""
    async with app.parts.uow.read(scope) as tx:
        found = await IndexJobStorage(app.parts.uow).get_job(tx, scope, job.id)
    assert found is not None
    return found


async def finish(app: Application, scope: Principal, store: JobStorage, source: Source) -> Progress:
    """Queue a sync and wait for its end; return its counts, which add up."""
    queued = await queue_sync(app, scope, source)
    await reaches(store, scope, queued.job_id)
    job = await read_job(app, scope, queued)
    assert (job.state, job.files_total) == ("done", job.progress.files_done)
    return job.progress


@pytest.mark.long
async def test_a_job_that_is_killed_twice_indexes_each_file_once(
    app: Application,
    scope: Principal,
    store: JobStorage,
    sql: asyncpg.Connection,
    database: Database,
    redis: RedisServer,
    tmp_path: Path,
) -> None:
    root, folder = tmp_path / "documents", tmp_path / "workers"
    folder.mkdir()
    number = write_documents(root)
    new = NewSource("documents", SourceKind.FOLDER, "knowledge", "maya", str(root))
    source = await SourceStorage(app.parts.uow).create_source(scope, new)
    job = await queue_sync(app, scope, source)
    with background(folder, database.app, redis.url, MNEMA_SOURCE_ROOTS=f'["{tmp_path}"]') as workers:
        for least in (40, 120):
            worker = workers.worker()
            await until(partial(reached, app, scope, job, least), f"{least} files", 120)
            kill_group(worker)
            part = await read_job(app, scope, job)
            assert part.state == "running"
            assert least <= part.progress.files_done < number == part.files_total
            await check_whole(sql)
        workers.worker()
        await reaches_slowly(store, scope, job)
        done = await read_job(app, scope, job)
        assert (done.state, done.files_total, done.progress.files_done) == ("done", number, number)
        assert (done.progress.added, done.progress.rejected, done.progress.unchanged) == (number - 1, 1, 0)
        await check_whole(sql)
        stored = await sql.fetchrow("SELECT count(*), count(DISTINCT path), sum(chunk_count) FROM files")
        assert tuple(stored) == (number, number, done.progress.chunks_added)
        assert await sql.fetchval("SELECT attempts FROM jobs WHERE id = $1", job.job_id) == 3
        versions = await sql.fetch("SELECT id, xmin::text FROM memories ORDER BY id")
        assert await finish(app, scope, store, source) == Progress(unchanged=number - 1, rejected=1)
        assert await sql.fetch("SELECT id, xmin::text FROM memories ORDER BY id") == versions
        edited = root / "text/7.md"
        edited.write_text(edited.read_text().replace("## Boats", "## Ships"))
        progress = await finish(app, scope, store, source)
        assert (progress.changed, progress.unchanged, progress.added, progress.removed) == (1, number - 2, 0, 0)
        assert progress.chunks_removed == progress.chunks_added >= 1
        await check_whole(sql)
        assert "Traceback" not in workers.log


async def reached(app: Application, scope: Principal, job: IndexJob, least: int) -> bool:
    """Tell whether the job has dealt with so many files."""
    return (await read_job(app, scope, job)).progress.files_done >= least


async def reaches_slowly(store: JobStorage, scope: Principal, job: IndexJob) -> None:
    """Wait for the end of a job that takes long."""

    async def ended() -> bool:
        found = await store.get_job(scope, job.job_id)
        return found is not None and found.state is JobState.done

    await until(ended, "the end of the index job", 180)
