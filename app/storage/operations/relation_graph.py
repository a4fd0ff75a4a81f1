"""Reading the relations between the memories of a user."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

_STATEMENTS: Final = load_statements("operations/relation_graph.sql")


@dataclass(frozen=True, slots=True)
class StoredRelation:
    """A relation of two memories, from the newer one to the older one."""

    from_id: UUID
    to_id: UUID
    relation_type: str
    strength: float


@dataclass(frozen=True, slots=True)
class RelatedMemory:
    """A memory with relations. `text`: the first characters."""

    id: UUID
    text: str
    category: str
    type: str
    importance: int
    pinned: bool


async def list_relations(
    tx: ReadTx, principal: Principal, user_id: str, min_strength: float, limit: int
) -> list[StoredRelation]:
    """Return the strongest relations between active memories of the user, at most `limit`."""
    whose = principal.tenant_id, principal.category_list, user_id
    rows = await tx.fetch(_STATEMENTS["edges"], *whose, min_strength, limit)
    return [StoredRelation(**dict(row)) for row in rows]


async def read_nodes(tx: ReadTx, principal: Principal, ids: Sequence[UUID], characters: int) -> list[RelatedMemory]:
    """Return these memories, oldest first."""
    arguments = principal.tenant_id, principal.category_list, list(ids), characters
    return [RelatedMemory(**dict(row)) for row in await tx.fetch(_STATEMENTS["nodes"], *arguments)]
