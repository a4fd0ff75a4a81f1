"""A folder that strangers write into, watched and indexed by real workers."""

import os
from pathlib import Path

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.sources.source import NewSource, Source, SourceKind
from app.storage.sources.sources import SourceStorage
from tests.acceptance.processes import alive
from tests.background import background, children, until
from tests.conftest import Database
from tests.factories import Caller
from tests.redis_server import RedisServer
from tests.sources.hostile_folder import GOOD, REASONS, make_hostile_folder

pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("workers")]
TEXTS = """SELECT m.text FROM memories m JOIN chunks c ON c.memory_id = m.id AND c.tenant_id = m.tenant_id
JOIN files f ON f.id = c.file_id AND f.tenant_id = c.tenant_id WHERE f.source_id = $1 AND m.state = 'active'"""


async def read_texts(sql: asyncpg.Connection, source: Source) -> set[str]:
    return {row["text"] for row in await sql.fetch(TEXTS, source.id)}


@pytest.mark.long
async def test_workers_index_a_hostile_folder_and_follow_its_changes(
    app: Application, caller: Caller, database: Database, redis: RedisServer, tmp_path: Path
) -> None:
    folder, outside = tmp_path / "allowed" / str(caller.scope.tenant_id), tmp_path / "outside"
    for made in (tmp_path / "home", folder, outside):
        made.mkdir(parents=True)
    (outside / "secret.md").write_text("SECRET outside")
    make_hostile_folder(folder, outside)
    new = NewSource("docs", SourceKind.FOLDER, "knowledge", "maya", str(folder))
    source = await SourceStorage(app.parts.uow).create_source(caller.scope, new)
    sql = await asyncpg.connect(database.superuser)
    roots = f'["{tmp_path}/allowed/{{tenant}}"]'
    try:
        with background(tmp_path / "home", database.app, redis.url, MNEMA_SOURCE_ROOTS=roots) as workers:
            worker = workers.worker(concurrency=2)

            async def is_indexed() -> bool:
                jobs = await sql.fetch("SELECT state, error FROM index_jobs WHERE source_id = $1", source.id)
                assert not [job["error"] for job in jobs if job["error"]], workers.log
                return bool(jobs) and all(job["state"] == "done" for job in jobs)

            await until(is_indexed, "the folder to be indexed")
            await check_files(sql, source)
            processes = children(worker)

            async def finds(text: str) -> None:
                async def found() -> bool:
                    return text in await read_texts(sql, source)

                await until(found, f"{text!r} in: {workers.log[-3000:]}")

            (folder / "good.md").write_text("Wasps make paper.")
            await finds("Wasps make paper.")
            assert not any("Bees make honey" in text for text in await read_texts(sql, source))
            for process in processes:  # also the one that watches
                os.kill(process, 9)
            (folder / "inner/new.md").write_text("Ants make gardens.")
            await finds("Ants make gardens.")
            os.rename(folder / "inner", folder / "renamed")
            (folder / "renamed/third.md").write_text("Moths make silk.")
            await finds("Moths make silk.")
            assert alive(worker.pid)
    finally:
        await sql.close()


async def check_files(sql: asyncpg.Connection, source: Source) -> None:
    """Each bad file is listed with its reason, each good one is indexed, and nothing from outside is stored."""
    rows = await sql.fetch("SELECT path, state, reason, chunk_count FROM files WHERE source_id = $1", source.id)
    by_path = {row["path"]: row for row in rows}
    [deep] = by_path.keys() - GOOD - REASONS.keys()
    assert by_path[deep]["reason"] == "unusable_name"
    assert {path: by_path[path]["reason"] for path in REASONS} == REASONS
    for path in GOOD:
        assert (by_path[path]["state"], by_path[path]["chunk_count"]) == ("indexed", 1), path
    everything = await sql.fetchval("SELECT string_agg(text, ' ') FROM memories")
    assert "SECRET" not in everything
    assert "root:" not in everything
