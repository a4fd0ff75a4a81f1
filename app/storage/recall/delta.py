"""The changes in a thread since a revision, and each agent's cursor, for all users or for one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, WriteTx

_SQL = load_statements("recall/delta.sql")


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread's revision, the agent's cursor, and the oldest revision that the log still holds (0: none)."""

    rev: int
    cursor: int
    oldest: int

    def is_truncated(self, since: int) -> bool:
        """Tell whether some changes after `since` are no longer in the log."""
        return self.rev > since and (self.oldest == 0 or self.oldest > since + 1)


@dataclass(frozen=True, slots=True)
class Changes:
    """The most important changes, and the number of all visible ones."""

    rows: tuple[Any, ...]
    total: int


class DeltaStorage:
    """Statements that read the change log and move cursors."""

    async def get_thread_state(
        self, tx: ReadTx, principal: Principal, thread_id: str, agent: str | None, user_id: str | None
    ) -> ThreadState:
        """Return the state of the thread and the agent's cursor; both are 0 in a thread without changes."""
        row: Any = await tx.fetchrow(_SQL["state"], principal.tenant_id, thread_id, agent, user_id)
        return ThreadState(row["rev"], row["cursor"], row["oldest"])

    async def load_changes(
        self,
        tx: ReadTx,
        principal: Principal,
        thread_id: str,
        between: tuple[int, int],
        categories: Sequence[str] | None,
        limit: int,
        user_id: str | None = None,
        truncated: bool = False,
    ) -> Changes:
        """Return changes after the first revision of `between` up to the second, the most important first.

        A change counts if its category is visible before and after it. A memory that was created and deleted in between
        does not appear. `truncated`: the log no longer holds all changes in between.
        """
        visible = None if categories is None else list(categories)
        rows = await tx.fetch(
            _SQL["changes"], principal.tenant_id, thread_id, between[0], visible, limit, between[1], user_id, truncated
        )
        return Changes(tuple(rows), rows[0]["total"] if rows else 0)

    async def advance_cursor(
        self, tx: WriteTx, principal: Principal, thread_id: str, agent: str, rev: int, user_id: str | None = None
    ) -> None:
        """Move the agent's cursor to `rev`, never back. `user_id` None: the cursor for changes of all users."""
        await tx.execute(_SQL["advance"], principal.tenant_id, thread_id, agent, rev, user_id)


async def erase_cursors(tx: WriteTx, principal: Principal, user_id: str) -> int:
    """Delete the cursors that name the user, in the transaction of their erasure; return how many."""
    return int((await tx.execute(_SQL["erase"], principal.tenant_id, user_id)).rsplit(" ", 1)[-1])
