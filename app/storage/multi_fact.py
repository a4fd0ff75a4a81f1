"""What is known of a turn before facts are made of it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.domain.memory import Memory
from app.domain.scope import Scope
from app.storage.memories import MemoryStorage
from app.storage.sql import statements
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class Before:
    """The turn, None when it is gone; how many facts were made of its user's turns since; whether it is done with."""

    turn: Memory | None
    today: int = 0
    done: bool = False


class TurnFacts:
    """Reads in one transaction."""

    def __init__(self, uow: UnitOfWork, memories: MemoryStorage) -> None:
        self._uow = uow
        self._memories = memories
        self._sql = statements("multi_fact.sql")

    async def before(self, scope: Scope, turn_id: UUID, since: datetime, route: str) -> Before:
        """As Before says."""
        async with self._uow.read(scope) as tx:
            turn = await self._memories.get(tx, scope, turn_id)
            if turn is None:
                return Before(None)
            row = await tx.fetchrow(self._sql["before"], scope.tenant_id, turn.user_id, since, route, str(turn_id))
            assert row is not None
            return Before(turn, row["today"], row["done"])
