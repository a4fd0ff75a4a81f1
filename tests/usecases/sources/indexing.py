"""A driver of index jobs for tests: sources, syncs, and what they leave in the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import asyncpg

from app.bootstrap import Application
from app.domain.principal import Principal
from app.domain.sources.folder import FileContent, SourceRoot
from app.domain.sources.index_job import IndexCause, IndexJob, IndexJobKind
from app.domain.sources.rejection import Rejection
from app.domain.sources.source import NewSource, Source, SourceKind
from app.providers.source_folders import PosixSourceFolders
from app.storage.identity import new_id
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage
from tests.factories import Caller, KeepOpen
from tests.usecases.stored import VECTORS

GUIDE = "# Guide\n\n" + "\n\n".join(f"## Part {n}\n\n{f'Sentence {n} of the guide. ' * 20}" for n in range(6))


class CountedFolders(PosixSourceFolders):
    """Real folders. `reads` has the paths that were opened; a file of `unstable` changes while it is read."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(allowed)
        self.reads: list[str] = []
        self.rejected: dict[str, Rejection] = {}

    async def read_file(self, root: SourceRoot, path: str, max_bytes: int) -> FileContent | Rejection:
        """Return the content of a file."""
        self.reads.append(path)
        return self.rejected.get(path) or await super().read_file(root, path, max_bytes)


@dataclass
class Indexing:
    """A tenant with a folder. Jobs run in this process, as a worker runs them."""

    app: Application
    caller: Caller
    sql: asyncpg.Connection
    root: Path
    folders: CountedFolders
    model: KeepOpen

    @property
    def scope(self) -> Principal:
        """The tenant's principal."""
        return self.caller.scope

    def write(self, path: str, text: str) -> Path:
        """Write a file below the root."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def write_many(self, number: int) -> None:
        """Write this many small files, each with one chunk."""
        for n in range(number):
            self.write(f"notes/{n:04}.md", f"# Note {n}\n\nThe number of this note is {n}.\n")

    async def add_folder(self, user_id: str = "maya", category: str = "knowledge") -> Source:
        """Store a source of the root."""
        new = NewSource("docs", SourceKind.FOLDER, category, user_id, str(self.root))
        return await SourceStorage(self.app.parts.uow).create_source(self.scope, new)

    async def add_uploads(self, user_id: str = "maya") -> Source:
        """Store a source of uploads."""
        new = NewSource("uploads", SourceKind.UPLOAD, "knowledge", user_id)
        return await SourceStorage(self.app.parts.uow).create_source(self.scope, new)

    async def upload(self, source: Source, path: str, content: bytes) -> str:
        """Store an upload as the API does: it waits. Return its blob."""
        uri = await self.app.turn_memory.blobs.store_blob(self.scope, source.user_id, content)
        async with self.app.parts.uow.write(self.scope) as tx:
            await tx.execute(
                "INSERT INTO files (tenant_id, id, source_id, user_id, path, size, modified_at, stamp, settings, state,"
                " hosted_uri) VALUES ($1, $2, $3, $4, $5, $6, now(), '', '', 'waiting', $7)"
                " ON CONFLICT (tenant_id, source_id, path) DO UPDATE SET size = excluded.size, state = 'waiting',"
                " reason = NULL, detail = NULL, hosted_uri = excluded.hosted_uri",
                *(self.scope.tenant_id, new_id(), source.id, source.user_id, path, len(content), uri),
            )
        return uri

    async def queue(self, source: Source, kind: IndexJobKind = IndexJobKind.SYNC) -> IndexJob:
        """Queue an index job."""
        jobs = IndexJobStorage(self.app.parts.uow)
        job = await jobs.queue_job(self.scope, source.id, kind, IndexCause.REQUEST)
        assert job is not None
        return job

    async def run(self, job: IndexJob) -> str:
        """Run the job once, as a worker would; it is due at once."""
        await self.sql.execute("UPDATE jobs SET next_run = now() WHERE id = $1 AND state = 'queued'", job.job_id)
        return await self.app.jobs.run.run_job(self.scope.tenant_id, job.job_id, "tester")

    async def sync(self, source: Source, kind: IndexJobKind = IndexJobKind.SYNC) -> IndexJob:
        """Queue a job, run it until it ends, and return it."""
        job = await self.queue(source, kind)
        outcomes = [await self.run(job)]
        while outcomes[-1] == "retry" and len(outcomes) < 100:
            outcomes.append(await self.run(job))
        return await self.state_of(job)

    async def state_of(self, job: IndexJob) -> IndexJob:
        """Return the job as it is now. If it is done, its counts must add up."""
        async with self.app.parts.uow.read(self.scope) as tx:
            found = await IndexJobStorage(self.app.parts.uow).get_job(tx, self.scope, job.id)
        assert found is not None
        done = await self.sql.fetchval("SELECT files_done FROM index_jobs WHERE id = $1", job.id)
        assert found.progress.files_done == done
        assert found.state != "done" or found.files_total == done
        return found

    async def texts_of(self, path: str) -> list[tuple[int, int, str]]:
        """Return start, end and text of a file's active chunks in order."""
        rows = await self.sql.fetch(
            "SELECT c.start_at, c.end_at, m.text FROM chunks c JOIN files f ON f.id = c.file_id"
            " JOIN memories m ON m.id = c.memory_id WHERE f.path = $1 AND m.state = 'active' ORDER BY c.ordinal",
            path,
        )
        return [tuple(row) for row in rows]

    async def chunk_ids(self, path: str) -> list[UUID]:
        """Return the memories of a file's chunks in order."""
        rows = await self.sql.fetch(
            "SELECT c.memory_id FROM chunks c JOIN files f ON f.id = c.file_id WHERE f.path = $1 ORDER BY c.ordinal",
            path,
        )
        return [row["memory_id"] for row in rows]

    async def file_states(self) -> dict[str, tuple[str, str | None]]:
        """Return state and reason of each file by its path."""
        rows = await self.sql.fetch("SELECT path, state, reason FROM files ORDER BY path")
        return {row["path"]: (row["state"], row["reason"]) for row in rows}

    async def check_whole(self) -> None:
        """Check that nothing is missing, double or left over."""
        await check_whole(self.sql)


async def check_whole(sql: asyncpg.Connection) -> None:
    """Check that chunks, memories, vectors and files agree: nothing is missing, double or left over."""
    rows = await sql.fetch(
        "SELECT f.path, f.state, f.chunk_count, count(c.memory_id) AS placed, count(m.id) AS stored,"
        " count(v.memory_id) AS embedded, count(DISTINCT c.ordinal) AS ordinals, max(c.ordinal) AS last"
        " FROM files f LEFT JOIN chunks c ON c.file_id = f.id"
        " LEFT JOIN memories m ON m.id = c.memory_id AND m.state = 'active'"
        f" LEFT JOIN {VECTORS} v ON v.memory_id = m.id GROUP BY f.tenant_id, f.id"
    )
    for row in rows:
        counts = {row[name] for name in ("chunk_count", "placed", "stored", "embedded", "ordinals")}
        assert counts == {0 if row["last"] is None else row["last"] + 1}, dict(row)
        assert (row["state"] == "indexed") == (row["chunk_count"] > 0), dict(row)
    placed, stored = await sql.fetchrow(
        "SELECT (SELECT count(*) FROM chunks), (SELECT count(*) FROM memories WHERE type = 'chunk')"
    )
    assert placed == stored
