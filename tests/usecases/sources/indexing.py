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
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage


class CountedFolders(PosixSourceFolders):
    """Real folders. `reads` has the paths that were opened."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(allowed)
        self.reads: list[str] = []

    async def read_file(self, root: SourceRoot, path: str, max_bytes: int) -> FileContent | Rejection:
        """Return the content of a file."""
        self.reads.append(path)
        return await super().read_file(root, path, max_bytes)


@dataclass
class Indexing:
    """A tenant with a folder. Jobs run in this process, as a worker runs them."""

    app: Application
    scope: Principal
    sql: asyncpg.Connection
    root: Path

    def write(self, path: str, text: str) -> Path:
        """Write a file below the root."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    async def add_folder(self, user_id: str = "maya", category: str = "knowledge") -> Source:
        """Store a source of the root."""
        new = NewSource("docs", SourceKind.FOLDER, category, user_id, str(self.root))
        return await SourceStorage(self.app.uow).create_source(self.scope, new)

    async def queue(self, source: Source, kind: IndexJobKind = IndexJobKind.SYNC) -> IndexJob:
        """Queue an index job."""
        jobs = IndexJobStorage(self.app.uow)
        job = await jobs.queue_job(self.scope, source.id, kind, IndexCause.REQUEST)
        assert job is not None
        return job

    async def run(self, job: IndexJob) -> str:
        """Run the job once, as a worker would."""
        return await self.app.run_jobs.run_job(self.scope.tenant_id, job.job_id, "tester")

    async def sync(self, source: Source) -> IndexJob:
        """Queue and run a sync, until it ends."""
        job = await self.queue(source)
        for _slice in range(100):
            if await self.run(job) != "retry":
                break
            await self.sql.execute("UPDATE jobs SET next_run = now() WHERE id = $1", job.job_id)
        return await self.state_of(job)

    async def state_of(self, job: IndexJob) -> IndexJob:
        """Return the job as it is now. Its counts add up."""
        async with self.app.uow.read(self.scope) as tx:
            found = await IndexJobStorage(self.app.uow).get_job(tx, self.scope, job.id)
        assert found is not None
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
