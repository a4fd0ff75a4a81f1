"""The methods on sources of both clients, against a real server."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from mnema_client import Conflict, InvalidRequest, NotFound, TimedOut

from tests.api.calls import sql
from tests.conftest import Database
from tests.sdk.conftest import Either

GONE = "WITH f AS (DELETE FROM files), j AS (DELETE FROM index_jobs) DELETE FROM sources"


@pytest.mark.long
async def test_a_source_is_filled_listed_and_removed(either: Either, database: Database) -> None:
    source = await either.add_source(name="handbook", category="knowledge", exclude=["drafts/"])
    assert (source.kind, source.name, source.status.files, source.index_job) == ("upload", "handbook", 0, None)
    uploaded = await either.upload_file(source.id, "guides/ü b.md", b"# Setup\n")
    assert (uploaded.action, uploaded.file.path, uploaded.index_job.state) == ("created", "guides/ü b.md", "queued")
    again = await either.upload_file(source.id, "guides/ü b.md", b"# Setup\n")
    assert (again.action, again.file.id, again.index_job) == ("unchanged", uploaded.file.id, None)
    for number in range(5):
        await either.upload_file(source.id, f"{number}.md", b"x")
    files = await either.source_files(source.id, limit=2)
    assert len(files) == 6
    assert uploaded.file.id in {file.id for file in files}
    assert await either.source_files(source.id, state="rejected") == []
    assert await either.source_file(source.id, uploaded.file.id) == uploaded.file
    assert await either.download_file(source.id, uploaded.file.id) == b"# Setup\n"
    assert {entry.name for entry in await either.source_tree(source.id, limit=3)} == {
        "guides",
        *map("{}.md".format, range(5)),
    }
    assert [entry.path for entry in await either.source_tree(source.id, "guides")] == ["guides/ü b.md"]
    assert await either.delete_file(source.id, files[0].id) is None
    changed = await either.change_source(source.id, name="book", exclude=["drafts/", "old/"])
    assert (changed.name, changed.exclude) == ("book", ["drafts/", "old/"])
    assert [found.id for found in await either.list_sources(user_id="_shared")] == [source.id]
    job = await either.sync_source(source.id)
    assert await either.index_job(source.id, job.id) == job
    assert [found.id for found in await either.index_jobs(source.id, limit=1)] == [job.id]
    removal = await either.remove_source(source.id)
    assert removal.kind == "removal"
    assert (await either.source(source.id)).status.state == "removing"
    with pytest.raises(Conflict) as refused:
        await either.upload_file(source.id, "a.md", b"x")
    assert refused.value.code == "source_removed"


@pytest.mark.long
async def test_a_client_waits_for_an_index_job(either: Either, database: Database) -> None:
    source = await either.add_source()
    job = (await either.upload_file(source.id, "a.md", b"x")).index_job
    with pytest.raises(TimedOut, match="still queued"):
        await either.wait_for_index(job, timeout_s=0.3)

    async def end(statement: str) -> Any:
        await asyncio.sleep(0.5)
        return await sql(database, statement)

    done = "UPDATE index_jobs SET state = 'done', ended_at = now(), added = 1, files_done = 1"
    waited, _ = await asyncio.gather(either.wait_for_index(job), end(done))
    assert (waited.state, waited.added) == ("done", 1)
    assert await either.wait_for_index(waited) == waited
    removal = await either.remove_source(source.id)
    gone, _ = await asyncio.gather(either.wait_for_index(removal), end(GONE))
    assert (gone.kind, gone.state) == ("removal", "done")


async def test_refusals_of_sources_have_their_codes(either: Either) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await either.add_source("/etc", category="knowledge")
    assert refused.value.code == "root_not_allowed"
    source = await either.add_source()
    with pytest.raises(InvalidRequest) as refused:
        await either.upload_file(source.id, "a.exe", b"x")
    assert refused.value.code == "unsupported_document"
    for missing in (either.source(uuid4()), either.sync_source(uuid4()), either.source_file(source.id, uuid4())):
        with pytest.raises(NotFound):
            await missing
    with pytest.raises(InvalidRequest):
        await either.upload_file(source.id, "../a.md", b"x")
