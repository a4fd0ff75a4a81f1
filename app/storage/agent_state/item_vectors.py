"""Vectors of store items, for items that have none in a space yet."""

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
    """A store item as it was read. `mark` is a hash of its value that shows later whether it changed."""

    id: UUID
    path: str
    key: str
    value: dict[str, Any]
    indexed: list[str]
    mark: bytes

    @property
    def embeddable_texts(self) -> list[str]:
        """The texts of the item that are embedded."""
        return indexed_texts(PutItem((), self.key, self.value, tuple(self.indexed)))


class ItemVectorStorage:
    """Statements that find items without a vector in this space, and store their vectors."""

    def __init__(self, uow: UnitOfWork, space: str) -> None:
        self._uow = uow
        self._space = space
        self._sql = load_statements("agent_state/item_vectors.sql")

    async def find_missing(self, principal: Principal, after: UUID | None, limit: int) -> list[UnembeddedItem]:
        """Return at most `limit` items without a vector here, in id order, with ids greater than `after`."""
        async with self._uow.read(principal, timeout_s=LONG_S) as tx:
            rows = await tx.fetch(self._sql["missing"], principal.tenant_id, self._space, after, limit)
        return [UnembeddedItem(**dict(row)) for row in rows]

    async def count_vectors(self, principal: Principal) -> tuple[int, int]:
        """Return how many items have a vector in any space, and how many in this one."""
        async with self._uow.read(principal, timeout_s=LONG_S) as tx:
            row = await tx.fetchrow(self._sql["counts"], principal.tenant_id, self._space)
        return (int(row["items"]), int(row["embedded"])) if row else (0, 0)

    async def fill_vectors(
        self, principal: Principal, items: Sequence[UnembeddedItem], vectors: Sequence[Sequence[Vector]]
    ) -> int:
        """Store vectors of the items that did not change since; return how many items. Raise WriteContention."""
        parts = [
            (item.id, part, HalfVector(vector))
            for item, item_vectors in zip(items, vectors, strict=True)
            for part, vector in enumerate(item_vectors)
        ]
        if not parts:
            return 0
        columns = [list(column) for column in zip(*parts, strict=True)]
        async with self._uow.write(principal) as tx:
            await lock_places(tx, principal, [(item.path, item.key) for item in items])
            return int(
                await tx.fetchval(
                    self._sql["fill"],
                    principal.tenant_id,
                    self._space,
                    [item.id for item in items],
                    [item.mark for item in items],
                    *columns,
                )
            )

    async def delete_vectors(self, principal: Principal) -> None:
        """Delete all vectors of the tenant in this space, in batches of DELETE_BATCH."""
        while True:
            async with self._uow.write(principal, timeout_s=LONG_S) as tx:
                tag = await tx.execute(self._sql["delete"], principal.tenant_id, self._space, DELETE_BATCH)
            if int(tag.rsplit(" ", 1)[-1]) < DELETE_BATCH:
                return
