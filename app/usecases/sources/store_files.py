"""Storing of files that were read: one transaction a file, with its chunks, their vectors and the job's progress."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from app.domain.errors import ErasedText
from app.domain.memory.memory import MemoryType, NewMemory, Origin
from app.domain.sources.chunk_matching import ChunkMatching, StoredChunk, match_chunks
from app.domain.sources.document import ParsedDocument, find_kind
from app.domain.sources.index_job import Progress
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source import FileState
from app.domain.sources.sync_plan import KnownFile
from app.ports import Clock, Embedding
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.storage.sources.files import FileRecord, FileStorage
from app.storage.sources.index_jobs import IndexJobStorage
from app.storage.uow import UnitOfWork, WriteTx
from app.usecases.sources.embed_chunks import CHANGES_AT_ONCE, EmbedChunks, chunk_source, create_chunk
from app.usecases.sources.index_run import HeldTransactions, IndexRun, QuotaTally
from app.usecases.sources.read_files import ReadFile

MOST_EMBEDDED: Final = 2_000
"""The most new chunks of one file that the job embeds. The job `embed`, which stops anywhere, embeds the others."""


class StaleFile(Exception):
    """The file was deleted, or another content was uploaded, since it was read."""


@dataclass(slots=True)
class PreparedFile:
    """A parsed file, the difference to its stored chunks, and the added chunks as memories with their embeddings."""

    file: ReadFile
    id: UUID
    matching: ChunkMatching
    memories: list[NewMemory]
    embeddings: list[Embedding | None] = field(default_factory=list)


class StoreFiles:
    """The part of an index job that writes. Each method is one transaction a file, or one for many small ones."""

    def __init__(
        self,
        uow: UnitOfWork,
        files: FileStorage,
        jobs: IndexJobStorage,
        journal: Journal,
        embed: EmbedChunks,
        clock: Clock,
    ) -> None:
        self._uow = uow
        self._files = files
        self._jobs = jobs
        self._journal = journal
        self._embed = embed
        self._clock = clock
        self._held = HeldTransactions(uow, jobs)

    async def store_group(self, run: IndexRun, group: Sequence[ReadFile], quota: QuotaTally) -> bool:
        """Store files that were read; embed the new chunks of all of them together. Raise EmbedderUnavailable.

        Return True if chunks were stored without vectors.
        """
        prepared = list[PreparedFile]()
        small = list[ReadFile]()
        async with self._uow.read(run.principal) as tx:
            ids = [file.planned.known.id for file in group if file.planned.known]
            stored = await self._files.find_stored(tx, run.principal, ids)
        for file in group:
            if file.planned.known is not None and file.planned.known.id not in stored:
                await self._skip_file(run)  # files deleted meanwhile need no embedding, which takes longer than parsing
                continue
            checked = _check_quota(file, quota)
            if isinstance(checked.result, ParsedDocument):
                prepared.append(await self._prepare_file(run, checked, checked.result))
            else:
                small.append(checked)
        embedded = await self._embed_chunks(prepared)
        for one in prepared:
            await self._store_prepared(run, one, quota)
        await self._store_small(run, small)
        return not embedded

    async def delete_file(self, run: IndexRun, known: KnownFile, *, removal: bool = False) -> None:
        """Delete a file with its chunks."""

        async def delete_all(tx: WriteTx) -> None:
            removed = await self._purge_stored(tx, run, known)
            gone = await self._files.delete_file(tx, run.principal, known.id)
            await self._add_progress(tx, run, Progress(removed=int(gone), chunks_removed=removed))

        await self._held.run_held(run, delete_all, removal=removal)

    async def _prepare_file(self, run: IndexRun, file: ReadFile, parsed: ParsedDocument) -> PreparedFile:
        known = file.planned.known
        stored = list[StoredChunk]()
        if known is not None and known.chunk_count:
            async with self._uow.read(run.principal) as tx:
                stored = await self._files.list_chunks(tx, run.principal, known.id)
        file_id = known.id if known else new_id()
        matching = match_chunks(stored, parsed.chunks)
        new = NewMemory(
            user_id=run.source.user_id,
            category=run.source.category,
            text="",
            type=MemoryType.chunk,
            agent_id=run.source.agent_id,
            created_at=self._clock.now(),
            origin=Origin.document,
        )
        places = [chunk_source(run.source, file_id, file.planned.path, chunk) for chunk in matching.added]
        texts = [chunk.text for chunk in matching.added]
        memories = [replace(new, text=text, source=place) for text, place in zip(texts, places, strict=True)]
        return PreparedFile(file, file_id, matching, memories)

    async def _embed_chunks(self, files: Sequence[PreparedFile]) -> bool:
        """Embed the added chunks, of each file at most MOST_EMBEDDED. Return False if some got no vector."""
        memories = [memory for file in files for memory in file.memories[:MOST_EMBEDDED]]
        embeddings = iter(await self._embed.embed_memories(memories))
        for file in files:
            file.embeddings = [next(embeddings) for _memory in file.memories[:MOST_EMBEDDED]]
            file.embeddings += [None] * (len(file.memories) - len(file.embeddings))
        return all(embedding is not None for file in files for embedding in file.embeddings)

    async def _store_prepared(self, run: IndexRun, prepared: PreparedFile, quota: QuotaTally) -> None:
        async def store_all(tx: WriteTx) -> None:
            await self._store_chunks(tx, run, prepared)

        try:
            await self._held.run_held(run, store_all)
        except ErasedText:
            quota.give_back(prepared.file.size, len(prepared.matching.added) + len(prepared.matching.kept))
            rejection = Rejection(RejectionReason.ERASED)
            await self._store_small(run, [replace(prepared.file, result=rejection)])
        except StaleFile:
            await self._skip_file(run)

    async def _store_chunks(self, tx: WriteTx, run: IndexRun, prepared: PreparedFile) -> None:
        file = prepared.file
        matching = prepared.matching
        known = prepared.file.planned.known
        await self._save_file(tx, run, file, prepared.id)
        if removed := [chunk.memory_id for chunk in matching.removed]:
            await self._files.purge_chunks(tx, run.principal, removed, run.actor)
        placed = [(new_id(), chunk) for chunk in matching.added]
        for start in range(0, len(placed), CHANGES_AT_ONCE):
            part = slice(start, start + CHANGES_AT_ONCE)
            rows = zip(placed[part], prepared.memories[part], prepared.embeddings[part], strict=True)
            changes = [create_chunk(memory_id, new, run.actor, vector) for (memory_id, _), new, vector in rows]
            await self._journal.record(run.principal, changes, tx=tx)
            await self._files.place_chunks(tx, run.principal, placed[part], file_id=prepared.id)
        if matching.moved:
            await self._files.move_chunks(tx, run.principal, matching.moved)
        is_new = known is None or known.is_new
        progress = Progress(
            added=int(is_new),
            changed=int(not is_new),
            chunks_added=len(matching.added),
            chunks_kept=len(matching.kept),
            chunks_removed=len(matching.removed),
            bytes_read=file.bytes_read,
        )
        await self._add_progress(tx, run, progress)

    async def _store_small(self, run: IndexRun, files: Sequence[ReadFile]) -> None:
        """Store files without new chunks. Those that have no chunk to delete go in one transaction."""

        async def store_all(tx: WriteTx) -> None:
            progress = Progress()
            for file in together:
                progress += await self._store_without_chunks(tx, run, file)
            await self._add_progress(tx, run, progress)

        alone = [f for f in files if f.result is not None and f.planned.known and f.planned.known.chunk_count]
        together = [f for f in files if f not in alone]
        try:
            if together:
                await self._held.run_held(run, store_all)
        except StaleFile:
            alone = [*files]
        for file in alone:
            await self._store_alone(run, file)

    async def _store_alone(self, run: IndexRun, file: ReadFile) -> None:
        async def store_one(tx: WriteTx) -> None:
            await self._add_progress(tx, run, await self._store_without_chunks(tx, run, file))

        try:
            await self._held.run_held(run, store_one)
        except StaleFile:
            await self._skip_file(run)

    async def _store_without_chunks(self, tx: WriteTx, run: IndexRun, file: ReadFile) -> Progress:
        known = file.planned.known
        removed = 0
        if known is not None and file.result is None:
            settings = run.policy.fingerprint
            await self._files.touch_file(tx, run.principal, known.id, file.stamp, file.modified_at, settings)
            return Progress(unchanged=1, bytes_read=file.bytes_read)
        await self._save_file(tx, run, file, known.id if known else new_id())
        if known is not None and known.chunk_count:
            removed = await self._purge_stored(tx, run, known)
        return Progress(rejected=1, chunks_removed=removed, bytes_read=file.bytes_read)

    async def _skip_file(self, run: IndexRun) -> None:
        """Count a file that changed under the job as unchanged. Another job, which waits already, deals with it."""

        async def count_file(tx: WriteTx) -> None:
            await self._add_progress(tx, run, Progress(unchanged=1))

        await self._held.run_held(run, count_file)

    async def _save_file(self, tx: WriteTx, run: IndexRun, file: ReadFile, file_id: UUID) -> None:
        record = _file_record(run, file, file_id)
        is_new = file.planned.known is None
        job_id = run.index_job.id
        if not await self._files.save_file(tx, run.principal, run.source, record, job_id, is_new=is_new):
            raise StaleFile

    async def _purge_stored(self, tx: WriteTx, run: IndexRun, known: KnownFile) -> int:
        ids = [chunk.memory_id for chunk in await self._files.list_chunks(tx, run.principal, known.id)]
        await self._files.purge_chunks(tx, run.principal, ids, run.actor)
        return len(ids)

    async def _add_progress(self, tx: WriteTx, run: IndexRun, progress: Progress) -> None:
        await self._jobs.add_progress(tx, run.principal, run.index_job.id, progress)


def _check_quota(file: ReadFile, quota: QuotaTally) -> ReadFile:
    """Count a file against the quota. Return it, rejected if it does not fit."""
    known = file.planned.known
    if isinstance(file.result, Rejection):
        quota.free_room(known)
    elif file.result is not None and not quota.take_room(known, file.size, len(file.result.chunks)):
        return replace(file, result=Rejection(RejectionReason.QUOTA))
    return file


def _file_record(run: IndexRun, file: ReadFile, file_id: UUID) -> FileRecord:
    planned = file.planned
    result = file.result
    kind = find_kind(planned.path)
    record = FileRecord(
        id=file_id,
        path=planned.path,
        filetype=kind.value if kind else None,
        size=file.size,
        modified_at=file.modified_at,
        stamp=file.stamp,
        hash=file.hash,
        settings=run.policy.fingerprint,
        state=FileState.INDEXED,
        hosted_uri=planned.known.hosted_uri if planned.known else None,
    )
    if isinstance(result, Rejection):
        return replace(record, state=FileState.REJECTED, reason=result.reason.value, detail=result.detail or None)
    assert result is not None
    document = result.document
    length = len(document.text)
    chunks = len(result.chunks)
    return replace(record, encoding=document.encoding, characters=length, chunk_count=chunks)
