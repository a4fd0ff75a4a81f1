"""Reading of the chunks of an answer, with their places and the chunks beside them."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from app.domain.principal import Principal
from app.domain.recall.passages import PlacedChunk
from app.domain.sources.source import ChunkPlace
from app.storage.recall.search import Search, filter_arguments
from app.storage.rows import memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row


class ChunkReader:
    """The statement that reads chunks for an answer."""

    def __init__(self) -> None:
        self._chunks = load_statements("recall/search.sql")["chunks"]

    async def load_chunks(
        self, tx: ReadTx, principal: Principal, search: Search, chosen: Sequence[UUID], beside: int = 0
    ) -> dict[UUID, list[PlacedChunk]]:
        """Return each chunk of `chosen` that may still be answered, among the `beside` chunks before and after it.

        All are in the order of their document. A chunk is deleted with its turn, its file or its source.
        """
        found: dict[UUID, list[PlacedChunk]] = {}
        if not chosen:
            return found
        search = replace(search, categories=search.chunk_categories)
        for row in await tx.fetch(self._chunks, *filter_arguments(principal, search), list(chosen), beside):
            chunk = PlacedChunk(memory_from_row(row), _place_from_row(row), row["gap"] or "")
            found.setdefault(row["hit"], []).append(chunk)
        return found


def _place_from_row(row: Row) -> ChunkPlace | None:
    if row["ordinal"] is None:
        return None
    return ChunkPlace(
        memory_id=row["id"],
        ordinal=row["ordinal"],
        start=row["start_at"],
        end=row["end_at"],
        page=row["page"],
        heading=tuple(row["heading"]),
        source_id=row["source_id"],
        file_id=row["file_id"],
        path=row["path"],
        turn_id=row["turn_id"],
    )
