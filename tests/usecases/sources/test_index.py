"""Index jobs on a folder: files become chunks, and chunks follow their files (`docs/sources.md`)."""

import os

import pytest
from pydantic import SecretStr

from app.domain.memory.memory import MemoryType
from app.domain.sources.index_job import IndexJobKind, Progress
from app.domain.sources.rejection import Rejection, RejectionReason
from app.usecases.sources import index
from bench.counting_proxy import CountingProxy
from tests.conftest import Database
from tests.factories import draft
from tests.usecases.sources.conftest import MakeIndexing
from tests.usecases.sources.indexing import GUIDE, Indexing
from tests.usecases.stored import VECTORS, history_of


@pytest.mark.long
async def test_a_file_becomes_chunks_with_exact_positions(indexing: Indexing) -> None:
    file = indexing.write("guide.md", GUIDE)
    source = await indexing.add_folder()
    job = await indexing.sync(source)
    chunks = await indexing.texts_of("guide.md")
    assert (job.state, job.files_total) == ("done", 1)
    assert job.progress == Progress(added=1, chunks_added=len(chunks), bytes_read=len(GUIDE.encode()))
    text = file.read_text(encoding="utf-8")
    assert len(chunks) > 5
    assert all(text[start:end] == chunk for start, end, chunk in chunks)
    await indexing.check_whole()
    [first, *_others] = await indexing.chunk_ids("guide.md")
    row = await indexing.sql.fetchrow("SELECT * FROM memories WHERE id = $1", first)
    assert (row["type"], row["category"], row["user_id"], row["origin"]) == ("chunk", "knowledge", "maya", "document")
    assert row["source"]["path"] == "guide.md"
    assert row["source"]["heading"].startswith("Guide")
    [added] = await history_of(indexing.sql, first)
    assert (added["event"], added["actor"]) == ("ADD", f"source:{source.id}")


@pytest.mark.long
async def test_a_second_sync_reads_nothing_and_runs_as_many_statements_for_any_number_of_files(
    make_indexing: MakeIndexing, database: Database
) -> None:
    flights = {}
    async with CountingProxy(database.app) as proxy:
        indexing = await make_indexing(url=SecretStr(proxy.proxy_url))
        source = await indexing.add_folder()
        for number in (3, 40):
            indexing.write_many(number)
            await indexing.sync(source)
            await indexing.sync(source)
            indexing.folders.reads.clear()
            before = proxy.flights
            job = await indexing.sync(source)
            flights[number] = proxy.flights - before
            assert job.progress == Progress(unchanged=number)
            assert indexing.folders.reads == []
    assert max(flights.values()) <= 30
    assert abs(flights[40] - flights[3]) <= 3, "a slow sync renews its lease once more"


@pytest.mark.long
async def test_a_touched_file_is_read_and_not_parsed_again(indexing: Indexing, monkeypatch: pytest.MonkeyPatch) -> None:
    file, source = indexing.write("guide.md", GUIDE), await indexing.add_folder()
    await indexing.sync(source)
    before = await indexing.chunk_ids("guide.md")
    os.utime(file, (1, 1))

    async def refuse(*_arguments: object) -> None:
        raise AssertionError("the file was parsed")

    monkeypatch.setattr("app.providers.parsing.pool.PooledDocumentParser.parse_document", refuse)
    job = await indexing.sync(source)
    assert job.progress == Progress(unchanged=1, bytes_read=len(GUIDE.encode()))
    assert await indexing.chunk_ids("guide.md") == before
    indexing.folders.reads.clear()
    await indexing.sync(source)
    assert indexing.folders.reads == []


@pytest.mark.long
async def test_an_edit_replaces_only_the_chunks_that_changed(indexing: Indexing) -> None:
    indexing.write("other.md", "# Other\n\nIt stays.\n")
    indexing.write("guide.md", GUIDE)
    source = await indexing.add_folder()
    await indexing.sync(source)
    before, other = await indexing.chunk_ids("guide.md"), await indexing.chunk_ids("other.md")
    edited = GUIDE.replace("Sentence 0 of", "A much longer sentence of zyxomel number 0 of", 3)
    indexing.write("guide.md", edited)
    job = await indexing.sync(source)
    after = await indexing.chunk_ids("guide.md")
    kept = set(before) & set(after)
    assert job.progress.changed == job.progress.unchanged == 1
    assert job.progress.chunks_kept == len(kept) >= len(before) - 2
    assert job.progress.chunks_removed == len(before) - len(kept) >= 1
    assert all(edited[start:end] == text for start, end, text in await indexing.texts_of("guide.md"))
    assert await indexing.chunk_ids("other.md") == other
    await indexing.check_whole()
    for gone in set(before) - kept:
        assert [(row["event"], row["meta"]) for row in await history_of(indexing.sql, gone)] == [
            ("ADD", {}),
            ("PURGE", {}),
        ]


@pytest.mark.long
async def test_a_deleted_file_takes_its_chunks_with_it(indexing: Indexing) -> None:
    indexing.write_many(3)
    source = await indexing.add_folder()
    await indexing.sync(source)
    (indexing.root / "notes" / "0001.md").unlink()
    job = await indexing.sync(source)
    assert job.progress == Progress(unchanged=2, removed=1, chunks_removed=1)
    assert await indexing.file_states() == {"notes/0000.md": ("indexed", None), "notes/0002.md": ("indexed", None)}
    assert await indexing.sql.fetchval(f"SELECT count(*) FROM {VECTORS}") == 2
    await indexing.check_whole()


@pytest.mark.long
async def test_a_folder_that_vanishes_deletes_nothing(indexing: Indexing) -> None:
    indexing.write_many(2)
    source = await indexing.add_folder()
    await indexing.sync(source)
    indexing.root.rename(indexing.root.parent / "unmounted")
    job = await indexing.sync(source)
    assert job.state == "failed"
    assert (job.error or "").startswith("root_unavailable: ")
    assert str(indexing.root) not in (job.error or "")
    assert len(await indexing.file_states()) == 2
    (indexing.root.parent / "unmounted").rename(indexing.root)
    assert (await indexing.sync(source)).progress == Progress(unchanged=2)


@pytest.mark.long
async def test_an_empty_folder_counts_as_not_mounted_but_patterns_may_leave_nothing(indexing: Indexing) -> None:
    indexing.write_many(2)
    source = await indexing.add_folder()
    await indexing.sync(source)
    (indexing.root / "notes").rename(indexing.root.parent / "elsewhere")
    job = await indexing.sync(source)
    assert (job.state, (job.error or "").split(":")[0]) == ("failed", "folder_empty")
    assert len(await indexing.file_states()) == 2
    (indexing.root.parent / "elsewhere").rename(indexing.root / "notes")
    await indexing.sql.execute("UPDATE sources SET exclude = '{*.md}'")
    assert (await indexing.sync(source)).progress == Progress(removed=2, chunks_removed=2)
    assert await indexing.file_states() == {}


@pytest.mark.long
async def test_many_new_chunks_are_indexed_at_once(indexing: Indexing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MANY_CHUNKS", 3)
    waiting = "SELECT count(*) FROM jobs WHERE kind = 'embed' AND state = 'queued'"
    indexing.write_many(2)
    source = await indexing.add_folder()
    await indexing.sync(source)
    assert await indexing.sql.fetchval(waiting) == 0
    indexing.write_many(5)
    await indexing.sync(source)
    assert await indexing.sql.fetchval(waiting) == 1


async def test_only_the_newest_index_jobs_are_kept(indexing: Indexing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "KEPT_JOBS", 2)
    source = await indexing.add_folder()
    jobs = [(await indexing.sync(source)).id for _ in range(4)]
    rows = await indexing.sql.fetch("SELECT id FROM index_jobs ORDER BY created_at")
    assert [row["id"] for row in rows] == jobs[-2:]


@pytest.mark.long
async def test_files_that_no_parser_reads_are_listed_with_the_reason(indexing: Indexing) -> None:
    indexing.write("image.png", "no image")
    indexing.write("empty.txt", "")
    indexing.write("broken.pdf", "no PDF")
    indexing.write("good.md", "# Good\n\nText.\n")
    source = await indexing.add_folder()
    first = await indexing.sync(source)
    assert (first.progress.added, first.progress.rejected) == (1, 3)
    assert await indexing.file_states() == {
        "broken.pdf": ("rejected", "broken"),
        "empty.txt": ("rejected", "empty"),
        "good.md": ("indexed", None),
        "image.png": ("rejected", "unsupported"),
    }
    assert "image.png" not in indexing.folders.reads
    indexing.folders.reads.clear()
    again = await indexing.sync(source)
    assert again.progress == Progress(unchanged=1, rejected=3)
    assert indexing.folders.reads == []
    indexing.write("good.md", "")
    assert (await indexing.sync(source)).progress == Progress(rejected=4, chunks_removed=1)
    await indexing.check_whole()


@pytest.mark.long
async def test_a_file_that_changes_while_it_is_read_is_tried_again_by_the_next_sync(indexing: Indexing) -> None:
    indexing.write("log.txt", "One line.\n")
    source = await indexing.add_folder()
    indexing.folders.rejected["log.txt"] = Rejection(RejectionReason.CHANGED_MEANWHILE)
    assert (await indexing.sync(source)).progress == Progress(rejected=1)
    assert await indexing.file_states() == {"log.txt": ("rejected", "changed_meanwhile")}
    indexing.folders.rejected.clear()
    assert (await indexing.sync(source)).progress.added == 1
    await indexing.check_whole()


@pytest.mark.long
async def test_changed_settings_parse_every_file_again(indexing: Indexing, make_indexing: MakeIndexing) -> None:
    indexing.write("guide.md", GUIDE)
    indexing.write("large.md", "# Large\n\n" + "word " * 400)
    source = await indexing.add_folder()
    await indexing.sync(source)
    before = len(await indexing.texts_of("guide.md"))
    smaller = await make_indexing(indexing.caller, chunk_size=200, chunk_overlap=0)
    job = await smaller.sync(source)
    assert (job.progress.changed, job.progress.unchanged) == (2, 0)
    assert len(await smaller.texts_of("guide.md")) > before
    assert (await smaller.sync(source)).progress == Progress(unchanged=2)
    limited = await make_indexing(indexing.caller, chunk_size=200, chunk_overlap=0, max_pages=7)
    assert (await limited.sync(source)).progress == Progress(unchanged=2)  # a limit changes no indexed file
    await smaller.check_whole()


@pytest.mark.long
async def test_a_removed_source_is_deleted_file_by_file(indexing: Indexing) -> None:
    indexing.write_many(5)
    source = await indexing.add_folder()
    await indexing.sync(source)
    async with indexing.app.parts.uow.write(indexing.scope) as tx:
        await tx.execute("UPDATE sources SET removed_at = now() WHERE tenant_id = $1", indexing.scope.tenant_id)
    job = await indexing.queue(source, IndexJobKind.REMOVAL)
    assert await indexing.run(job) == "done"
    counts = [await indexing.sql.fetchval(f"SELECT count(*) FROM {t}") for t in ("sources", "files", "chunks")]
    assert counts == [0, 0, 0]
    assert await indexing.sql.fetchval("SELECT count(*) FROM memories WHERE type = 'chunk'") == 0
    assert await indexing.sql.fetchval("SELECT count(*) FROM index_jobs") == 0
    report = await indexing.sql.fetchval("SELECT report FROM jobs WHERE id = $1", job.job_id)
    assert (report["source"], report["removed"], report["chunks_removed"]) == (str(source.id), 5, 5)


@pytest.mark.long
async def test_beyond_the_quota_a_file_is_rejected_whole(make_indexing: MakeIndexing) -> None:
    indexing = await make_indexing(tenant_chunks=4)
    indexing.write_many(3)
    indexing.write("notes/0001b.md", GUIDE)
    source = await indexing.add_folder()
    assert (await indexing.sync(source)).progress.rejected == 1
    assert (await indexing.file_states())["notes/0001b.md"] == ("rejected", "quota")
    indexing.folders.reads.clear()
    indexing.write("notes/0003.md", "# Fourth\n\nIt fits.\n")
    assert (await indexing.sync(source)).progress.added == 1
    larger = await make_indexing(indexing.caller, tenant_chunks=1000)
    assert (await larger.sync(source)).progress.added == 1
    small = await make_indexing(tenant_bytes=10)
    assert (await small.sync(await small.add_folder())).progress.rejected == 5
    await indexing.check_whole()


@pytest.mark.long
async def test_erased_text_is_not_stored_again(indexing: Indexing) -> None:
    indexing.write("secret.md", "Maya lives in Quuxtown.")
    indexing.write("other.md", "Nothing about anybody.")
    source = await indexing.add_folder()
    await indexing.sync(source)
    await indexing.app.retention.erase.erase_user(indexing.scope, "maya")
    source = await indexing.add_folder()
    indexing.write("new.md", "Something new.")
    job = await indexing.sync(source)
    assert (job.progress.added, job.progress.rejected) == (1, 2)
    assert (await indexing.file_states())["secret.md"] == ("rejected", "erased")
    await indexing.check_whole()


@pytest.mark.long
async def test_chunks_are_no_memories_of_the_user_to_compare_with(indexing: Indexing) -> None:
    indexing.write("fact.md", "Maya drinks oat milk.")
    await indexing.sync(await indexing.add_folder(category="preferences"))
    await indexing.app.memory.write.write_memory(indexing.scope, draft("Maya drinks oat milk."))
    stored = await indexing.sql.fetch("SELECT type FROM memories ORDER BY type")
    assert [row["type"] for row in stored] == [MemoryType.chunk, MemoryType.semantic]
