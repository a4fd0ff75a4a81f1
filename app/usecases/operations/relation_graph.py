"""The graph of a user's memories and their relations."""

from dataclasses import dataclass

from app.domain.principal import Principal
from app.storage.operations.relation_graph import RelatedMemory, StoredRelation, list_relations, read_nodes
from app.storage.uow import UnitOfWork

NODE_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class RelationGraph:
    """Relations, strongest first, and the memories at their ends. `truncated`: there are weaker ones."""

    nodes: list[RelatedMemory]
    edges: list[StoredRelation]
    truncated: bool


class ReadRelations:
    """The use-case that reads how the memories of a user are related."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def read_graph(self, principal: Principal, user_id: str, min_strength: float, limit: int) -> RelationGraph:
        """Return the strongest relations of active memories that the key may see, at most `limit`."""
        async with self._uow.read_anywhere(principal) as tx:
            rows = await list_relations(tx, principal, user_id, min_strength, limit + 1)
            ends = sorted({end for edge in rows[:limit] for end in (edge.from_id, edge.to_id)})
            nodes = await read_nodes(tx, principal, ends, NODE_CHARACTERS) if ends else []
        shown = {node.id for node in nodes}  # a memory may be deleted between the two statements
        edges = [edge for edge in rows[:limit] if edge.from_id in shown and edge.to_id in shown]
        return RelationGraph(nodes, edges, truncated=len(rows) > limit)
