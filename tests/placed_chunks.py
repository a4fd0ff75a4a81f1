"""Documents for tests: files with chunks at known places, stored without a parser or an index job."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from mnema_wire.limits import SHARED_USER

from app.bootstrap import Application
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.memory.presentation import embedded_text
from app.domain.principal import Principal
from app.domain.sources.document import join_heading
from app.domain.sources.source import NewSource, Source, SourceKind
from app.storage.identity import new_id
from app.storage.sources.sources import SourceStorage
from tests.storage.building import journal_of

STAMPED = datetime(2026, 1, 26, 15, 3, tzinfo=UTC)


@dataclass
class StoredDocument:
    """A stored file with its text and the ids of its chunks in order."""

    source: Source
    file_id: UUID
    text: str
    chunks: list[UUID] = field(default_factory=list)


def cut_lines(text: str, overlap: int = 0) -> list[tuple[int, int]]:
    """Return the spans of a text's paragraphs, each with the last `overlap` characters of the one before."""
    spans, at = [], 0
    for part in text.split("\n\n"):
        spans.append((max(0, at - 2 - overlap) if overlap and at else at, at + len(part)))
        at += len(part) + 2
    return spans


async def store_document(
    app: Application,
    principal: Principal,
    text: str,
    *,
    user_id: str = SHARED_USER,
    category: str = "knowledge",
    path: str = "guide.md",
    heading: Sequence[str] = ("Guide",),
    page: int | None = None,
    overlap: int = 0,
    source: Source | None = None,
    **fields: Any,
) -> StoredDocument:
    """Store a file whose chunks are the paragraphs of `text`."""
    if source is None:
        new = NewSource(path, SourceKind.UPLOAD, category, user_id)
        source = await SourceStorage(app.parts.uow).create_source(principal, new)
    document = StoredDocument(source, new_id(), text)
    spans = cut_lines(text, overlap)
    place = {"source_id": str(source.id), "file_id": str(document.file_id), "path": path}
    place["heading"] = join_heading(heading)
    changes = await _chunk_changes(
        app, principal, [text[slice(*s)] for s in spans], user_id, category=category, source=place, **fields
    )
    async with app.parts.uow.write(principal) as tx:
        await tx.execute(
            "INSERT INTO files (tenant_id, id, source_id, user_id, path, filetype, size, modified_at, stamp, settings,"
            " state, chunk_count) VALUES ($1, $2, $3, $4, $5, 'text', $6, $7, '', '', 'indexed', $8)",
            *(principal.tenant_id, document.file_id, source.id, user_id, path, len(text), STAMPED, len(spans)),
        )
        await journal_of(app.parts.uow).record(principal, changes, tx=tx)
        for ordinal, (change, (start, end)) in enumerate(zip(changes, spans, strict=True)):
            gap = text[spans[ordinal - 1][1] : start] if ordinal else ""
            await tx.execute(
                "INSERT INTO chunks (tenant_id, memory_id, file_id, ordinal, start_at, end_at, page, heading, gap)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                *(
                    principal.tenant_id,
                    change.memory_id,
                    document.file_id,
                    ordinal,
                    start,
                    end,
                    page,
                    list(heading),
                    gap,
                ),
            )
            document.chunks.append(change.memory_id)
    return document


async def store_turn_chunks(
    app: Application, principal: Principal, text: str, turn_id: str, thread_id: str, size: int = 300
) -> list[UUID]:
    """Cut the text of maya's turn into chunks of `size` characters."""
    spans = [(start, min(len(text), start + size)) for start in range(0, len(text), size)]
    texts, place = [text[slice(*span)] for span in spans], {"turn_id": turn_id}
    changes = await _chunk_changes(
        app, principal, texts, "maya", category="activity", source=place, thread_id=thread_id
    )
    async with app.parts.uow.write(principal) as tx:
        await journal_of(app.parts.uow).record(principal, changes, tx=tx)
        for ordinal, (change, (start, end)) in enumerate(zip(changes, spans, strict=True)):
            await tx.execute(
                "INSERT INTO chunks (tenant_id, memory_id, turn_id, ordinal, start_at, end_at, heading)"
                " VALUES ($1, $2, $3, $4, $5, $6, '{}')",
                *(principal.tenant_id, change.memory_id, UUID(turn_id), ordinal, start, end),
            )
    return [change.memory_id for change in changes]


async def remove_source(app: Application, principal: Principal, source: Source) -> None:
    """Mark a source as removed; its chunks are still stored."""
    async with app.parts.uow.write(principal) as tx:
        assert await SourceStorage(app.parts.uow).mark_removed(tx, principal, source.id)


async def _chunk_changes(
    app: Application, principal: Principal, texts: Sequence[str], user_id: str, **fields: Any
) -> list[MemoryChange]:
    embeddings = await app.parts.embedder.encode_texts(
        [embedded_text("chunk", t, None, fields["source"]) for t in texts]
    )
    return [
        MemoryChange(
            ChangeKind.created,
            new_id(),
            user_id,
            principal.actor_name,
            new=NewMemory(
                **{
                    "user_id": user_id,
                    "text": text,
                    "type": MemoryType.chunk,
                    "created_at": datetime.now(UTC),
                    **fields,
                }
            ),
            vector=embedding.vector,
            tokens=embedding.tokens,
        )
        for text, embedding in zip(texts, embeddings, strict=True)
    ]
