"""Vectors of memories stored without one. The memories themselves do not change, so the journal is not involved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from app.domain.principal import Principal
from app.ports import Embedding
from app.storage.engine import LONG_S
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class UnembeddedMemory:
    """The embeddable parts of a memory, and the version that was read."""

    id: UUID
    version: int
    type: str
    text: str
    actor_id: str | None
    source: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class VectorCounts:
    """A tenant's counts: memories, memories with a vector, and vectors in the approximate index."""

    memories: int
    vectors: int
    indexed: int


class VectorStorage:
    """Statements that find memories without a vector in one space, and store their vectors."""

    def __init__(self, uow: UnitOfWork, space: str) -> None:
        self._uow = uow
        names = {"vec": f"vec_{space}", "fill": f"fill_vectors_{space}", "index": f"index_vectors_{space}"}
        names |= {"fill_past": f"fill_past_{space}", "space": space}
        self._sql = {name: text.format(**names) for name, text in load_statements("operations/vectors.sql").items()}

    async def find_missing(
        self, principal: Principal, after: UUID | None, limit: int, *, tokens: bool
    ) -> list[UnembeddedMemory]:
        """Return at most `limit` memories without a vector, in id order, with ids greater than `after`.

        The state does not matter, because a restored memory must be found again. With `tokens`, include memories that
        have a vector but no tokens.
        """
        async with self._uow.read(principal) as tx:
            rows = await tx.fetch(self._sql["missing"], principal.tenant_id, tokens, after, limit)
        return [UnembeddedMemory(**dict(row)) for row in rows]

    async def count_missing(self, principal: Principal, *, tokens: bool) -> int:
        """Return how many memories `find_missing` would return in all."""
        async with self._uow.read(principal, timeout_s=LONG_S) as tx:
            return int(await tx.fetchval(self._sql["count_missing"], principal.tenant_id, tokens))

    async def count_vectors(self, principal: Principal) -> VectorCounts:
        """Return the tenant's counts in this space."""
        async with self._uow.read(principal, timeout_s=LONG_S) as tx:
            rows = await tx.fetch(self._sql["counts"], principal.tenant_id)
        return VectorCounts(**dict(rows[0]))

    async def size_bytes(self) -> int:
        """Return the size of the space on disk in bytes."""
        return sum(int(row["bytes"]) for row in await self._uow.call_everywhere(self._sql["size"]))

    async def find_missing_one(self, principal: Principal, memory_id: UUID, *, tokens: bool) -> UnembeddedMemory | None:
        """Return the memory if it exists and `find_missing` would return it."""
        async with self._uow.read(principal) as tx:
            row = await tx.fetchrow(self._sql["missing_one"], principal.tenant_id, tokens, memory_id)
        return UnembeddedMemory(**dict(row)) if row else None

    async def fill_vectors(
        self, principal: Principal, memories: Sequence[UnembeddedMemory], embeddings: Sequence[Embedding]
    ) -> int:
        """Store the embeddings of memories that still have the version that was read; return how many."""
        rows = await self._uow.call(
            principal,
            self._sql["fill"],
            [memory.id for memory in memories],
            [memory.version for memory in memories],
            [HalfVector(embedding.vector) for embedding in embeddings],
            [embedding.tokens for embedding in embeddings],
        )
        return int(rows[0]["filled"])

    async def has_more_than(self, principal: Principal, number: int) -> bool:
        """Tell whether the tenant has more than `number` vectors of active memories."""
        async with self._uow.read(principal) as tx:
            return int(await tx.fetchval(self._sql["active"], principal.tenant_id, number + 1)) > number

    async def index_vectors(self, principal: Principal, limit: int) -> int:
        """Add up to `limit` vectors to the approximate index; return how many were added."""
        rows = await self._uow.call(principal, self._sql["index"], limit)
        return int(rows[0]["indexed"])

    async def fill_past(self, principal: Principal, limit: int) -> int:
        """Read the past of the next `limit` memories from their history. Return how many, 0 at the end."""
        rows = await self._uow.call(principal, self._sql["fill_past"], limit)
        return int(rows[0]["filled"])

    async def count_past(self, principal: Principal) -> int:
        """Return the number of memories whose past `fill_past` has not read."""
        async with self._uow.read(principal, timeout_s=LONG_S) as tx:
            return int(await tx.fetchval(self._sql["past_missing"], principal.tenant_id))
