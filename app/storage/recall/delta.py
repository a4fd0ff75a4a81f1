"""The net changes in a thread since a revision, and each reader's cursor, for all users or for one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, WriteTx

_SQL = load_statements("recall/delta.sql")


@dataclass(frozen=True, slots=True)
class ReaderDelta:
    """A thread's delta for one reader.

    `since` is the revision where it starts, `rev` the newest one of a change in the reader's categories. `rows` are the
    most important net changes, `total` is the number of all.
    """

    since: int
    rev: int
    truncated: bool
    rows: tuple[Any, ...]
    total: int


class DeltaStorage:
    """Statements that read the change log and move cursors."""

    async def read_delta(
        self,
        tx: ReadTx,
        principal: Principal,
        thread_id: str,
        since: int | None,
        agent: str | None,
        user_id: str | None,
        categories: Sequence[str] | None,
        limit: int,
    ) -> ReaderDelta:
        """Return the delta of `categories` (None: all) since a revision; None means the reader's cursor."""
        visible = None if categories is None else list(categories)
        rows: Any = await tx.fetch(
            _SQL["delta"],
            principal.tenant_id,
            thread_id,
            since,
            agent,
            principal.reach(user_id),
            principal.cursor_key,
            visible,
            limit,
        )
        first = rows[0]
        told = tuple(row for row in rows if row["kind"] is not None)
        return ReaderDelta(first["since_rev"], first["told_rev"], first["truncated"], told, first["total"])

    async def advance_cursor(
        self, tx: WriteTx, principal: Principal, thread_id: str, agent: str, rev: int, user_id: str | None = None
    ) -> None:
        """Move the reader's cursor to `rev`, never back. `user_id` None: the cursor for changes of all users."""
        await tx.execute(_SQL["advance"], principal.tenant_id, thread_id, agent, rev, user_id, principal.cursor_key)


async def drop_key_cursors(tx: WriteTx, principal: Principal, key_id: UUID) -> None:
    """Delete the cursors of an API key, in the transaction that revokes it."""
    await tx.execute(_SQL["drop_key"], principal.tenant_id, key_id)
