"""Reading the standing instructions of a user."""

from pgvector import HalfVector

from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.domain.recall.instructions import FoundInstruction
from app.storage.recall.search import Search, filter_arguments
from app.storage.statements import load_statements
from app.storage.uow import ReadTx


class InstructionStorage:
    """The statement that reads standing instructions, with their words in one embedding space."""

    def __init__(self, space: str) -> None:
        self._statement = load_statements("recall/search.sql")["instructions"].format(space=space)

    async def find_instructions(
        self, tx: ReadTx, principal: Principal, search: Search, most: int
    ) -> list[FoundInstruction]:
        """Return the newest `most` instructions of the search's user that pass its categories and filters."""
        rows = await tx.fetch(
            self._statement,
            *filter_arguments(principal, search),
            None if search.vector is None else HalfVector(search.vector),
            most,
            search.moments.as_of,
            search.moments.valid_at,
            list(search.today),
        )
        return [
            FoundInstruction(
                id=row["id"],
                text=row["text"],
                created_at=row["created_at"],
                is_turn=row["type"] == MemoryType.turn,
                turn_id=row["turn_id"],
                similarity=row["similarity"],
                tokens=row["tokens"],
            )
            for row in rows
        ]
