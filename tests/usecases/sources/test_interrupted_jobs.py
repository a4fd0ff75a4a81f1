"""Index jobs that are interrupted, take long, or run at the same time."""

import asyncio
from collections.abc import Sequence

import pytest

from app.domain.outages import EmbedderUnavailable
from app.domain.sources.index_job import IndexJobKind, Progress
from app.ports import Embedding
from app.storage.uow import WriteTx
from app.usecases.sources.index_run import IndexRun
from app.usecases.sources.store_files import StoreFiles
from tests.usecases.sources.conftest import MakeIndexing
from tests.usecases.sources.indexing import GUIDE, Indexing


def fail_after(indexing: Indexing, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the model fail after so many calls."""
    encode, left = indexing.model.encode_texts, [calls]

    async def encode_texts(texts: Sequence[str]) -> list[Embedding]:
        left[0] -= 1
        if left[0] < 0:
            raise EmbedderUnavailable("away")
        return await encode(texts)

    monkeypatch.setattr(indexing.model, "encode_texts", encode_texts)


@pytest.mark.long
async def test_an_outage_of_the_embedder_loses_nothing_and_counts_nothing_twice(
    indexing: Indexing, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexing.write_many(100)
    indexing.write("photo.png", "")
    source = await indexing.add_folder()
    job = await indexing.queue(source)
    with monkeypatch.context() as patch:
        fail_after(indexing, 1, patch)
        assert await indexing.run(job) == "retry"
    broken = await indexing.state_of(job)
    assert (broken.state, broken.files_total, broken.progress.added) == ("running", 101, 64)
    await indexing.check_whole()
    error = await indexing.sql.fetchval("SELECT last_error FROM jobs WHERE id = $1", job.job_id)
    assert error == "embedder_unavailable: away"
    (indexing.root / "notes" / "0000.md").unlink()  # dealt with by this job: the next sync deletes it
    indexing.write("notes/0100.md", "# Later\n\nA new one.\n")
    assert await indexing.run(job) == "done"
    whole = await indexing.state_of(job)
    assert (whole.state, whole.files_total) == ("done", 102)
    assert (whole.progress.added, whole.progress.rejected, whole.progress.unchanged) == (101, 1, 0)
    await indexing.check_whole()
    assert (await indexing.sync(source)).progress == Progress(unchanged=100, rejected=1, removed=1, chunks_removed=1)


@pytest.mark.long
async def test_an_outage_of_the_database_is_retried(indexing: Indexing, monkeypatch: pytest.MonkeyPatch) -> None:
    indexing.write_many(70)
    job, encode = await indexing.queue(await indexing.add_folder()), indexing.model.encode_texts
    store = StoreFiles._add_progress

    async def end_connections(texts: Sequence[str]) -> list[Embedding]:
        monkeypatch.setattr(StoreFiles, "_add_progress", break_transaction)
        return await encode(texts)

    async def break_transaction(self: StoreFiles, tx: WriteTx, run: IndexRun, progress: Progress) -> None:
        monkeypatch.setattr(StoreFiles, "_add_progress", store)
        await indexing.sql.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = 'mnema_app' AND datname = current_database()"
        )
        await store(self, tx, run, progress)

    with monkeypatch.context() as patch:
        patch.setattr(indexing.model, "encode_texts", end_connections)
        assert await indexing.run(job) == "retry"
    assert await indexing.file_states() == {}
    while await indexing.run(job) == "retry":
        pass
    done = await indexing.state_of(job)
    assert (done.state, done.progress) == (
        "done",
        Progress(added=70, chunks_added=70, bytes_read=done.progress.bytes_read),
    )
    await indexing.check_whole()


@pytest.mark.long
async def test_a_job_whose_attempts_are_used_up_fails_and_a_new_one_goes_on(indexing: Indexing) -> None:
    indexing.write_many(2)
    source = await indexing.add_folder()
    indexing.model.failing = True
    job = await indexing.sync(source)
    assert (job.state, job.progress) == ("failed", Progress())
    assert (job.error or "").startswith("embedder_unavailable: ")
    indexing.model.failing = False
    assert (await indexing.sync(source)).progress.added == 2
    assert await indexing.app.jobs.manage.replay_job(indexing.scope, job.job_id)  # an operator replays the dead one
    assert await indexing.run(job) == "done"
    assert (await indexing.state_of(job)).progress == Progress(unchanged=2)
    await indexing.check_whole()


@pytest.mark.long
async def test_a_job_lets_others_run_after_its_slice(
    make_indexing: MakeIndexing, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexing = await make_indexing(slice_s=1)
    monkeypatch.setattr("app.usecases.sources.index.GROUP_FILES", 1)
    indexing.write_many(4)
    source, encode = await indexing.add_folder(), indexing.model.encode_texts

    async def encode_slowly(texts: Sequence[str]) -> list[Embedding]:
        await asyncio.sleep(0.6)
        return await encode(texts)

    monkeypatch.setattr(indexing.model, "encode_texts", encode_slowly)
    job = await indexing.queue(source)
    assert await indexing.run(job) == "retry"
    part = await indexing.state_of(job)
    assert (part.state, part.files_total) == ("running", 4)
    assert 1 <= part.progress.added <= 2
    assert await indexing.sql.fetchval("SELECT attempts FROM jobs WHERE id = $1", job.job_id) == 0
    while await indexing.run(job) == "retry":
        pass
    assert (await indexing.state_of(job)).progress.added == 4
    await indexing.check_whole()


@pytest.mark.long
async def test_one_job_of_a_source_waits_and_one_runs(indexing: Indexing, monkeypatch: pytest.MonkeyPatch) -> None:
    indexing.write_many(3)
    source = await indexing.add_folder()
    first = await indexing.queue(source)
    with monkeypatch.context() as patch:
        fail_after(indexing, 0, patch)
        assert await indexing.run(first) == "retry"  # it has begun and goes on later
    second = await indexing.queue(source)
    assert (await indexing.queue(source)).id == second.id != first.id
    assert await indexing.run(second) == "retry"
    waiting = await indexing.sql.fetchrow("SELECT state, attempts, last_error FROM jobs WHERE id = $1", second.job_id)
    assert tuple(waiting) == ("queued", 0, "another index job of the source runs")
    assert await indexing.run(first) == "done"
    assert await indexing.run(second) == "done"
    assert (await indexing.state_of(second)).progress == Progress(unchanged=3)


@pytest.mark.long
async def test_syncs_at_the_same_time_index_each_file_once(indexing: Indexing) -> None:
    indexing.write_many(30)
    one, other = await indexing.add_folder("maya"), await indexing.add_folder("ravi")
    jobs = [await indexing.queue(one), await indexing.queue(other)]
    runs = (indexing.app.jobs.run.run_job(indexing.scope.tenant_id, job.job_id, "w") for job in (*jobs, *jobs))
    assert sorted(await asyncio.gather(*runs)) == ["done", "done", "skipped", "skipped"]
    assert [(await indexing.state_of(job)).progress.added for job in jobs] == [30, 30]
    await indexing.check_whole()


@pytest.mark.long
async def test_a_run_that_lost_its_lease_writes_nothing(indexing: Indexing, monkeypatch: pytest.MonkeyPatch) -> None:
    indexing.write_many(3)
    job = await indexing.queue(await indexing.add_folder())
    encode = indexing.model.encode_texts

    async def lose_lease(texts: Sequence[str]) -> list[Embedding]:
        await indexing.sql.execute("UPDATE jobs SET worker = 'another' WHERE id = $1", job.job_id)
        return await encode(texts)

    with monkeypatch.context() as patch:
        patch.setattr(indexing.model, "encode_texts", lose_lease)
        assert await indexing.run(job) == "skipped"
    assert await indexing.file_states() == {}
    await indexing.sql.execute("UPDATE jobs SET lease_until = now() - interval '1 s' WHERE id = $1", job.job_id)
    assert await indexing.run(job) == "done"
    assert (await indexing.state_of(job)).progress.added == 3


async def test_a_source_removed_while_it_is_indexed_ends_the_sync(
    indexing: Indexing, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexing.write_many(3)
    source = await indexing.add_folder()
    job, encode = await indexing.queue(source), indexing.model.encode_texts

    async def remove_source(texts: Sequence[str]) -> list[Embedding]:
        await indexing.sql.execute("UPDATE sources SET removed_at = now()")
        return await encode(texts)

    monkeypatch.setattr(indexing.model, "encode_texts", remove_source)
    assert await indexing.run(job) == "done"
    assert await indexing.file_states() == {}
    ended = await indexing.state_of(job)
    assert (ended.state, ended.error) == ("failed", "source_removed: the source was removed")
    removal = await indexing.queue(source)
    assert removal.kind is IndexJobKind.REMOVAL
    assert await indexing.run(removal) == "done"
    assert await indexing.sql.fetchval("SELECT count(*) FROM sources") == 0


@pytest.mark.long
async def test_a_refused_chunk_is_stored_without_a_vector_and_embedded_later(
    indexing: Indexing, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexing.write("guide.md", GUIDE)
    monkeypatch.setattr("app.usecases.sources.store_files.MOST_EMBEDDED", 2)
    await indexing.sync(await indexing.add_folder())
    chunks = len(await indexing.chunk_ids("guide.md"))
    vectors = "SELECT count(*) FROM vec_minilm_l6_v2"
    assert await indexing.sql.fetchval(vectors) == 2 < chunks
    [later] = await indexing.sql.fetch("SELECT id FROM jobs WHERE kind = 'embed'")
    assert await indexing.app.jobs.run.run_job(indexing.scope.tenant_id, later["id"], "tester") == "done"
    assert await indexing.sql.fetchval(vectors) == chunks
    await indexing.check_whole()
