"""The stored statements that a turn's commands may be about."""

from dataclasses import dataclass
from typing import Final

from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

NEAREST: Final = 30
"""The number of nearest statements that a turn is compared with."""


@dataclass(frozen=True, slots=True)
class EarlierStatements:
    """The active statements stored near a turn, and those that the user's turn before it left in its thread.

    `answered`: somebody else spoke between the two turns.
    """

    near: tuple[Memory, ...] = ()
    previous: tuple[Memory, ...] = ()
    answered: bool = False


class CommandStorage:
    """Statements on one embedding space."""

    def __init__(self, uow: UnitOfWork, space: str) -> None:
        self._uow = uow
        names = {"columns": memory_columns("m"), "vec": f"vec_{space}"}
        self._sql = {name: text.format(**names) for name, text in load_statements("reflection/commands.sql").items()}

    async def load_earlier(self, principal: Principal, turn: Memory, *, previous: bool) -> EarlierStatements:
        """Return the user's statements near a turn, and with `previous` those of the turn before it.

        Only memories in the principal's categories.
        """
        categories = principal.category_list
        async with self._uow.read(principal) as tx:
            near = await tx.fetch(self._sql["near"], principal.tenant_id, turn.user_id, turn.id, categories, NEAREST)
            left = []
            answered = False
            if previous and turn.thread_id is not None:
                before = await tx.fetchrow(
                    self._sql["previous"],
                    principal.tenant_id,
                    turn.user_id,
                    turn.created_at,
                    turn.id,
                    turn.thread_id,
                    categories,
                )
                if before is not None:
                    answered = before["answered"]
                    left = await tx.fetch(
                        self._sql["left"], principal.tenant_id, before["id"], turn.user_id, categories
                    )
        return EarlierStatements(tuple(map(memory_from_row, near)), tuple(map(memory_from_row, left)), answered)
