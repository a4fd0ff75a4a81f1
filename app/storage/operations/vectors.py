"""Vectors of memories that were stored without one. The text stays as it is, so there is nothing for the journal."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from pgvector import HalfVector

from app.domain.principal import Principal
from app.ports import Embedding
from app.storage.engine import LONG_S
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class UnembeddedMemory:
    """What of a memory goes into its vector, and the version it was read at."""

    id: UUID
    version: int
    type: str
    text: str
    actor_id: str | None


@dataclass(frozen=True, slots=True)
class VectorCounts:
    """Of a tenant: its memories, how many have a vector, and how many vectors are in the approximate index."""

    memories: int
    vectors: int
    indexed: int


class VectorStorage:
    """Finds memories without a vector in one space, and gives them one."""

    def __init__(self, uow: UnitOfWork, space: str) -> None:
        self._uow = uow
        names = {"vec": f"vec_{space}", "fill": f"fill_vectors_{space}", "index": f"index_vectors_{space}"}
        self._sql = {name: text.format(**names) for name, text in load_statements("operations/vectors.sql").items()}

    async def find_missing(
        self, scope: Principal, after: UUID | None, limit: int, *, tokens: bool
    ) -> list[UnembeddedMemory]:
        """In the order of their ids, behind `after`, in whatever state: what is restored must be found again.

        With `tokens` also those that have a vector and no tokens.
        """
        async with self._uow.read(scope) as tx:
            rows = await tx.fetch(self._sql["missing"], scope.tenant_id, tokens, after, limit)
        return [UnembeddedMemory(**dict(row)) for row in rows]

    async def count_missing(self, scope: Principal, *, tokens: bool) -> int:
        """How many `missing` would find."""
        async with self._uow.read(scope, timeout_s=LONG_S) as tx:
            return int(await tx.fetchval(self._sql["lacking"], scope.tenant_id, tokens))

    async def count_vectors(self, scope: Principal) -> VectorCounts:
        """What the space holds of the tenant."""
        async with self._uow.read(scope, timeout_s=LONG_S) as tx:
            rows = await tx.fetch(self._sql["counts"], scope.tenant_id)
        return VectorCounts(**dict(rows[0]))

    async def size_bytes(self) -> int:
        """What the space takes on disk, in bytes."""
        return int((await self._uow.call_definer(self._sql["size"]))[0]["bytes"])

    async def find_missing_one(self, scope: Principal, memory_id: UUID, *, tokens: bool) -> UnembeddedMemory | None:
        """The memory, if it is there and `missing` would find it."""
        async with self._uow.read(scope) as tx:
            row = await tx.fetchrow(self._sql["missing_one"], scope.tenant_id, tokens, memory_id)
        return UnembeddedMemory(**dict(row)) if row else None

    async def fill_vectors(
        self, scope: Principal, memories: Sequence[UnembeddedMemory], embeddings: Sequence[Embedding]
    ) -> int:
        """Store the embeddings of those that are still at the version that was read; how many."""
        rows = await self._uow.call(
            scope,
            self._sql["fill"],
            [memory.id for memory in memories],
            [memory.version for memory in memories],
            [HalfVector(embedding.vector) for embedding in embeddings],
            [embedding.tokens for embedding in embeddings],
        )
        return int(rows[0]["filled"])

    async def has_more_than(self, scope: Principal, number: int) -> bool:
        """Whether the tenant has more vectors of active memories."""
        async with self._uow.read(scope) as tx:
            return int(await tx.fetchval(self._sql["active"], scope.tenant_id, number + 1)) > number

    async def index_vectors(self, scope: Principal, limit: int) -> int:
        """Put so many more into the approximate index; how many there were."""
        rows = await self._uow.call(scope, self._sql["index"], limit)
        return int(rows[0]["indexed"])
