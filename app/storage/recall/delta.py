"""What changed in a thread since a revision, and how far each agent has been shown it, of all or of one user."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, WriteTx

_SQL = load_statements("recall/delta.sql")


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread's revision, the agent's cursor and the oldest revision the log still holds (0: none)."""

    rev: int
    cursor: int
    oldest: int

    def is_truncated(self, since: int) -> bool:
        """Whether changes after `since` are no longer in the log."""
        return self.rev > since and (self.oldest == 0 or self.oldest > since + 1)


@dataclass(frozen=True, slots=True)
class Changes:
    """The most important changes and how many visible ones there are in all."""

    rows: tuple[Any, ...]
    total: int


class DeltaStorage:
    """Reads the change log; moves cursors."""

    async def get_thread_state(
        self, tx: ReadTx, scope: Principal, thread_id: str, agent: str | None, user_id: str | None
    ) -> ThreadState:
        """Where the thread and the agent's cursor stand; a thread without changes stands at 0."""
        row: Any = await tx.fetchrow(_SQL["state"], scope.tenant_id, thread_id, agent, user_id)
        return ThreadState(row["rev"], row["cursor"], row["oldest"])

    async def load_changes(
        self,
        tx: ReadTx,
        scope: Principal,
        thread_id: str,
        between: tuple[int, int],
        categories: Sequence[str] | None,
        limit: int,
        user_id: str | None = None,
        truncated: bool = False,
    ) -> Changes:
        """Changes after the first revision up to the second, in categories visible before and after.

        Nothing of what came and went between the two. `truncated`: the log no longer holds all that was between them.
        """
        chosen = None if categories is None else list(categories)
        rows = await tx.fetch(
            _SQL["changes"], scope.tenant_id, thread_id, between[0], chosen, limit, between[1], user_id, truncated
        )
        return Changes(tuple(rows), rows[0]["total"] if rows else 0)

    async def advance_cursor(
        self, tx: WriteTx, scope: Principal, thread_id: str, agent: str, rev: int, user_id: str | None = None
    ) -> None:
        """Move the agent's cursor to `rev`, never back; of that user's changes, or of everybody's."""
        await tx.execute(_SQL["advance"], scope.tenant_id, thread_id, agent, rev, user_id)


async def erase_cursors(tx: WriteTx, scope: Principal, user_id: str) -> int:
    """Remove the cursors that name a person, in the transaction of their erasure; how many."""
    return int((await tx.execute(_SQL["erase"], scope.tenant_id, user_id)).rsplit(" ", 1)[-1])
