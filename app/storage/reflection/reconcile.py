"""The stored memories that new facts are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass

from pgvector import HalfVector

from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.domain.reflection.reconcile import ReconcilePolicy
from app.ports import Vector
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class FactNeighbour:
    """A memory with its cosine similarity to each fact, in the order of the facts."""

    memory: Memory
    similarities: tuple[float, ...]


class ReconcileStorage:
    """Statements on one embedding space, on active semantic memories of one user."""

    def __init__(self, uow: UnitOfWork, space: str) -> None:
        self._uow = uow
        names = {"columns": memory_columns("m"), "vec": f"vec_{space}"}
        self._neighbours = load_statements("reflection/reconcile.sql")["neighbours"].format(**names)

    async def load_neighbours(
        self, principal: Principal, user_id: str, facts: Sequence[Vector], policy: ReconcilePolicy
    ) -> list[FactNeighbour]:
        """Return the facts' neighbours, oldest first, within the principal's categories."""
        async with self._uow.read(principal) as tx:
            rows = await tx.fetch(
                self._neighbours,
                principal.tenant_id,
                user_id,
                principal.category_list,
                [HalfVector(vector) for vector in facts],
                policy.neighbours,
                policy.min_similarity,
            )
        return [FactNeighbour(memory_from_row(row), tuple(map(float, row["similarities"]))) for row in rows]
