"""Vectors of the values that agents keep, where a space has none of them yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from app.domain.agent_state.store_items import PutItem, indexed_texts
from app.domain.principal import Principal
from app.ports import Vector
from app.storage.agent_state.store_items import lock_places
from app.storage.engine import LONG_S
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

DELETE_BATCH = 5000


@dataclass(frozen=True, slots=True)
class UnembeddedItem:
    """A value as it was read; `mark` tells whether it still is that."""

    id: UUID
    path: str
    key: str
    value: dict[str, Any]
    indexed: list[str]
    mark: bytes

    @property
    def embeddable_texts(self) -> list[str]:
        """What of it is embedded."""
        return indexed_texts(PutItem((), self.key, self.value, tuple(self.indexed)))


class ItemVectorStorage:
    """Finds values that are to be found by meaning and have no vector in this space, and gives them theirs."""

    def __init__(self, uow: UnitOfWork, space: str) -> None:
        self._uow = uow
        self._space = space
        self._sql = load_statements("agent_state/item_vectors.sql")

    async def find_missing(self, scope: Principal, after: UUID | None, limit: int) -> list[UnembeddedItem]:
        """In the order of their ids, behind `after`."""
        async with self._uow.read(scope, timeout_s=LONG_S) as tx:
            rows = await tx.fetch(self._sql["missing"], scope.tenant_id, self._space, after, limit)
        return [UnembeddedItem(**dict(row)) for row in rows]

    async def count_vectors(self, scope: Principal) -> tuple[int, int]:
        """Values with a vector in any space, and in this one."""
        async with self._uow.read(scope, timeout_s=LONG_S) as tx:
            row = await tx.fetchrow(self._sql["counts"], scope.tenant_id, self._space)
        return (int(row["items"]), int(row["embedded"])) if row else (0, 0)

    async def fill_vectors(
        self, scope: Principal, items: Sequence[UnembeddedItem], vectors: Sequence[Sequence[Vector]]
    ) -> int:
        """Store the vectors of those that are still as they were read; how many. Raises WriteContention."""
        parts = [
            (item.id, part, HalfVector(vector))
            for item, own in zip(items, vectors, strict=True)
            for part, vector in enumerate(own)
        ]
        if not parts:
            return 0
        columns = [list(column) for column in zip(*parts, strict=True)]
        marks = [item.id for item in items], [item.mark for item in items]
        async with self._uow.write(scope) as tx:
            await lock_places(tx, scope, [(item.path, item.key) for item in items])
            return int(await tx.fetchval(self._sql["fill"], scope.tenant_id, self._space, *marks, *columns))

    async def delete_vectors(self, scope: Principal) -> None:
        """Remove all that the space holds of the tenant."""
        while True:
            async with self._uow.write(scope, timeout_s=LONG_S) as tx:
                tag = await tx.execute(self._sql["forget"], scope.tenant_id, self._space, DELETE_BATCH)
            if int(tag.rsplit(" ", 1)[-1]) < DELETE_BATCH:
                return
