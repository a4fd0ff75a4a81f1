"""The vectors of the memories that state facts.

The database writes the text of such a memory in the transaction of its facts (`write_fact_memory`), because only there
the facts are certain. So the text is embedded after that transaction. Until then full-text search finds the memory.
"""

from collections.abc import Sequence

import structlog

from app.domain.errors import MnemaError
from app.domain.facts.fact import FactMemory
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.ports import Embedder
from app.storage.operations.vectors import UnembeddedMemory, VectorStorage

log = structlog.get_logger(__name__)


class EmbedFactMemories:
    """The step after a statement of facts that embeds the memories of these facts."""

    def __init__(self, vectors: VectorStorage, embedder: Embedder) -> None:
        self._vectors = vectors
        self._embedder = embedder

    async def embed_memories(self, principal: Principal, memories: Sequence[FactMemory]) -> None:
        """Store the vectors of these texts; do nothing without any. A text that changed meanwhile keeps none.

        Raise nothing: the facts are stored. After a failure the job `embed` stores the vectors.
        """
        if not memories:
            return
        rows = [UnembeddedMemory(m.id, m.version, MemoryType.semantic, m.text, None, None) for m in memories]
        try:
            await self._vectors.fill_vectors(
                principal, rows, await self._embedder.encode_texts([memory.text for memory in memories])
            )
        except MnemaError as error:
            log.warning("fact_memory_without_vector", error=error.code)
