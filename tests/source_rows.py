"""A source for tests, with one file, one chunk and an index job, without anything that parses."""

from datetime import UTC, datetime
from uuid import UUID

from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.domain.sources.index_job import IndexCause, IndexJobKind
from app.domain.sources.source import NewSource, Source, SourceKind
from app.storage.identity import new_id
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.sources.sources import SourceStorage
from app.storage.uow import UnitOfWork, WriteTx
from tests.storage.building import journal_of, remembered

STAMPED = datetime(2026, 1, 26, 15, 3, tzinfo=UTC)


async def store_source(uow: UnitOfWork, principal: Principal, word: str, user_id: str = "maya") -> Source:
    """Store a source of uploads of a user. Its names, its file, its chunk and its blob hold `word`."""
    new = NewSource(word, SourceKind.UPLOAD, "knowledge", user_id, include=(f"{word}/*",))
    source = await SourceStorage(uow).create_source(principal, new)
    chunk = await remembered(
        journal_of(uow), principal, f"All about {word}.", user_id=user_id, category="knowledge", type=MemoryType.chunk
    )
    async with uow.write(principal) as tx:
        await store_file(tx, principal, source, word, chunk.id)
    assert await IndexJobStorage(uow).queue_job(principal, source.id, IndexJobKind.SYNC, IndexCause.ADDED)
    return source


async def store_file(tx: WriteTx, principal: Principal, source: Source, word: str, chunk: UUID) -> UUID:
    """Store an uploaded file with its blob and the place of its only chunk; return its id."""
    uri, file = f"postgres:{principal.tenant_id}/{new_id()}", new_id()
    of_blob = principal.tenant_id, uri
    await tx.execute("INSERT INTO blobs (tenant_id, uri, user_id) VALUES ($1, $2, $3)", *of_blob, source.user_id)
    await tx.execute("INSERT INTO blob_contents (tenant_id, uri, content) VALUES ($1, $2, $3)", *of_blob, word.encode())
    await tx.execute(
        "INSERT INTO files (tenant_id, id, source_id, user_id, path, filetype, size, modified_at, stamp, settings,"
        " state, chunk_count, hosted_uri) VALUES ($1, $2, $3, $4, $5, 'text', $6, $7, '', '', 'indexed', 1, $8)",
        *(principal.tenant_id, file, source.id, source.user_id, f"{word}.txt", len(word.encode()), STAMPED, uri),
    )
    await tx.execute(
        "INSERT INTO chunks (tenant_id, memory_id, file_id, ordinal, start_at, end_at, heading)"
        " VALUES ($1, $2, $3, 0, 0, $4, $5)",
        *(principal.tenant_id, chunk, file, len(word), [word]),
    )
    return file
