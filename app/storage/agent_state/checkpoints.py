"""Checkpoints in PostgreSQL: the hot calls are one function and one round trip each."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from app.domain.agent_state.checkpoints import (
    Checkpoint,
    State,
    Thread,
    Wanted,
    Write,
    distinct_values,
    distinct_writes,
)
from app.domain.errors import InvalidInput, NotFound, VersionConflict, WrongState
from app.domain.principal import Scope
from app.storage.identity import new_id
from app.storage.statements import statements
from app.storage.uow import Row, UnitOfWork

_SQL = statements("agent_state/checkpoints.sql")
CONFLICT = "the state changed since the version in If-Match"
NOTHING = "nothing is held of this thread of this user"
KEPT = "a checkpoint saver keeps this thread: a state cannot be put over it"


class CheckpointStorage:
    """What is there of a thread: its latest state, or a saver's checkpoints."""

    def __init__(self, uow: UnitOfWork, most: int) -> None:
        """`most`: bytes that one checkpoint may hold, its writes apart; they may hold as much."""
        self._uow = uow
        self._most = most

    async def put_state(
        self, scope: Scope, thread: Thread, json: str | None, binary: bytes | None, version: int | None
    ) -> State:
        """Store it; raises VersionConflict, WrongState where a saver keeps the thread, InvalidInput for what JSON
        cannot hold in PostgreSQL: a number beyond its range."""
        try:
            rows = await self._uow.call(
                scope, _SQL["put_state"], new_id(), thread.user_id, thread.thread_id, json or "{}", binary, version
            )
        except asyncpg.DataError as error:
            raise InvalidInput("the state holds a number or a text that PostgreSQL cannot store as JSON") from error
        if not rows:
            raise VersionConflict(CONFLICT)
        if rows[0]["kind"] != "state":
            raise WrongState(KEPT)
        return State(rows[0]["version"], None, None, rows[0]["created_at"], rows[0]["updated_at"])

    async def state(self, scope: Scope, thread: Thread) -> State:
        """The latest state; of a thread that a saver keeps, which checkpoint is its newest. Raises NotFound."""
        rows = await self._uow.call(scope, _SQL["state"], thread.user_id, thread.thread_id)
        if not rows:
            raise NotFound(NOTHING)
        row = rows[0]
        json = row["state"] if row["bytes"] is None else None
        return State(row["version"], json, row["bytes"], row["created_at"], row["updated_at"])

    async def delete_state(self, scope: Scope, thread: Thread, version: int | None) -> None:
        """Delete the thread with all that hangs on it; raises NotFound, VersionConflict."""
        rows = await self._uow.call(scope, _SQL["delete_state"], thread.user_id, thread.thread_id, version)
        if rows[0]["outcome"] == "none":
            raise NotFound(NOTHING)
        if rows[0]["outcome"] == "conflict":
            raise VersionConflict(CONFLICT)

    async def put(self, scope: Scope, checkpoint: Checkpoint) -> None:
        """Store a checkpoint; raises WrongState where a state was put as a whole, StateTooLarge."""
        thread, values = checkpoint.thread, distinct_values(checkpoint.values)
        args = (
            *(new_id(), thread.user_id, thread.thread_id, checkpoint.ns, checkpoint.checkpoint_id),
            *(checkpoint.parent_id, checkpoint.type, checkpoint.data, checkpoint.metadata, checkpoint.versions),
            *([v.channel for v in values], [v.version for v in values]),
            *([v.type for v in values], [v.data for v in values], self._most),
        )
        await self._uow.call(scope, _SQL["put"], *args)

    async def write(self, scope: Scope, thread: Thread, ns: str, checkpoint_id: str, writes: Sequence[Write]) -> None:
        """Store writes; the checkpoint may come later. Raises as `put`."""
        where = new_id(), thread.user_id, thread.thread_id, ns, checkpoint_id
        await self._uow.call(scope, _SQL["writes"], *where, *_columns(writes), self._most)

    async def get(self, scope: Scope, thread: Thread, ns: str, checkpoint_id: str | None) -> Row | None:
        """A checkpoint, or the newest of its namespace: a row of `get_checkpoint`."""
        rows = await self._uow.call(scope, _SQL["get"], thread.user_id, thread.thread_id, ns, checkpoint_id)
        return rows[0] if rows else None

    async def page(self, scope: Scope, wanted: Wanted, after: Sequence[str] | None, limit: int, most: int) -> list[Row]:
        """Checkpoints, newest first: rows of `list_checkpoints`; beyond the first, as many as `most` bytes hold."""
        parts = wanted.user_id, wanted.thread_id, wanted.ns, wanted.checkpoint_id, wanted.before
        return await self._uow.call(scope, _SQL["page"], *parts, wanted.metadata or {}, after, limit, most)

    async def delete_threads(self, scope: Scope, user_id: str, thread_ids: Sequence[str]) -> int:
        """Delete threads that a saver keeps; how many were there."""
        return await self._count(scope, "delete_threads", user_id, thread_ids)

    async def delete_runs(self, scope: Scope, user_id: str | None, run_ids: Sequence[str]) -> int:
        """Delete the checkpoints of runs; how many."""
        return await self._count(scope, "delete_runs", user_id, run_ids)

    async def prune(self, scope: Scope, user_id: str, thread_ids: Sequence[str]) -> int:
        """Leave the newest checkpoint of each namespace, and what it is made of; how many went."""
        return await self._count(scope, "prune", user_id, thread_ids)

    async def copy(self, scope: Scope, source: Thread, target_id: str) -> int:
        """Copy a thread to another of the same user; how many checkpoints. Raises WrongState."""
        return await self._count(scope, "copy", new_id(), source.user_id, source.thread_id, target_id)

    async def _count(self, scope: Scope, name: str, *args: Any) -> int:
        rows = await self._uow.call(scope, _SQL[name], *args)
        count: int = rows[0]["count"]
        return count


def _columns(writes: Sequence[Write]) -> tuple[list[Any], ...]:
    kept = distinct_writes(writes)
    names = "task_id", "idx", "task_path", "channel", "type", "data"
    return tuple([getattr(write, name) for write in kept] for name in names)
