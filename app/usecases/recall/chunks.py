"""Chunks of an answer: the chosen ones, read with their places and the chunks beside them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from app.domain.recall.passages import FoundChunk, Passage, join_chunks
from app.domain.text_rules import text_key
from app.storage.recall.chunks import ChunkReader
from app.storage.uow import ReadTx
from app.usecases.recall.ranking import Ranking


class FindChunks:
    """Reading of the chunks that a ranking has chosen."""

    def __init__(self, reader: ChunkReader) -> None:
        self._reader = reader

    async def load_chosen(self, tx: ReadTx, ranking: Ranking, beside: int = 0) -> list[FoundChunk]:
        """Return the chosen chunks that may still be answered, best first, with the chunks `beside` each one.

        Of equal texts only the best is returned. Nothing is read if no chunk was chosen.
        """
        if (slots := ranking.chunks) is None or not slots.chosen:
            return []
        ids = [scored.candidate.id for scored in slots.chosen]
        loaded = await self._reader.load_chunks(tx, ranking.principal, ranking.search, ids, beside)
        found: list[FoundChunk] = []
        told: set[bytes] = set()
        for scored in slots.chosen:
            around = loaded.get(scored.candidate.id, [])
            chunk = next((one for one in around if one.memory.id == scored.candidate.id), None)
            if chunk is not None and (key := text_key(chunk.memory.text)) not in told:
                told.add(key)
                found.append(FoundChunk(scored, chunk, around))
        return found


def fit_passages(
    found: Sequence[FoundChunk], reach: int, most: int, fits: Callable[[Passage, int], bool]
) -> Iterator[Passage]:
    """Yield at most `most` passages, none with a chunk of an earlier one.

    A passage that does not fit is tried again with fewer chunks beside it. `fits` gets it and its place from 0; if
    it returns True, it has reserved the room for it.
    """
    taken: set[UUID] = set()
    count = 0
    for one in found:
        if count == most:
            return
        if one.chunk.memory.id in taken:
            continue
        for size in range(reach, -1, -1):
            passage = join_chunks(one, size, taken)
            also = tuple(f.chunk.memory.id for f in found if f is not one and f.chunk.memory.id in passage.ids)
            passage = replace(passage, also=also)
            if fits(passage, count):
                taken.update(passage.ids)
                count += 1
                yield passage
                break
