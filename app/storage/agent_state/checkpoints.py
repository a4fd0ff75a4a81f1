"""Checkpoints in PostgreSQL. Each hot call is one function and one round trip."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from app.domain.agent_state.checkpoints import (
    ChannelWrite,
    Checkpoint,
    CheckpointFilter,
    LatestState,
    Thread,
    distinct_values,
    distinct_writes,
)
from app.domain.errors import InvalidInput, NotFound, VersionConflict, WrongState
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.statements import load_statements
from app.storage.uow import Row, UnitOfWork

_SQL = load_statements("agent_state/checkpoints.sql")
CONFLICT = "the state changed since the version in If-Match; read it again and retry"
NO_SUCH_THREAD = "nothing is stored for this thread of this user"
KEPT_BY_SAVER = "a checkpoint saver keeps this thread; delete the thread before you put a state there"


class CheckpointStorage:
    """Statements on threads: their latest state, or a saver's checkpoints."""

    def __init__(self, uow: UnitOfWork, most: int) -> None:
        """Limit a checkpoint to `most` bytes, and its writes to another `most` bytes."""
        self._uow = uow
        self._most = most

    async def put_state(
        self, principal: Principal, thread: Thread, json: str | None, binary: bytes | None, version: int | None
    ) -> LatestState:
        """Store the state.

        Raise VersionConflict if the stored version is not `version`, WrongState if a saver keeps the thread, and
        InvalidInput if PostgreSQL cannot store the JSON (for example a number beyond its range).
        """
        try:
            rows = await self._uow.call(
                principal, _SQL["put_state"], new_id(), thread.user_id, thread.thread_id, json or "{}", binary, version
            )
        except asyncpg.DataError as error:
            raise InvalidInput("the state holds a number or a text that PostgreSQL cannot store as JSON") from error
        if not rows:
            raise VersionConflict(CONFLICT)
        if rows[0]["kind"] != "state":
            raise WrongState(KEPT_BY_SAVER)
        return LatestState(rows[0]["version"], None, None, rows[0]["created_at"], rows[0]["updated_at"])

    async def get_state(self, principal: Principal, thread: Thread) -> LatestState:
        """Return the latest state or, if a saver keeps the thread, name its newest checkpoint. Raise NotFound."""
        rows = await self._uow.call_anywhere(principal, _SQL["state"], thread.user_id, thread.thread_id)
        if not rows:
            raise NotFound(NO_SUCH_THREAD)
        row = rows[0]
        json = row["state"] if row["bytes"] is None else None
        return LatestState(row["version"], json, row["bytes"], row["created_at"], row["updated_at"])

    async def delete_state(self, principal: Principal, thread: Thread, version: int | None) -> None:
        """Delete the thread and all its checkpoints. Raise NotFound or VersionConflict."""
        rows = await self._uow.call(principal, _SQL["delete_state"], thread.user_id, thread.thread_id, version)
        if rows[0]["outcome"] == "none":
            raise NotFound(NO_SUCH_THREAD)
        if rows[0]["outcome"] == "conflict":
            raise VersionConflict(CONFLICT)

    async def put_checkpoint(self, principal: Principal, checkpoint: Checkpoint) -> None:
        """Store a checkpoint. Raise WrongState if a whole state was put there, StateTooLarge if it is too large."""
        thread = checkpoint.thread
        values = distinct_values(checkpoint.values)
        await self._uow.call(
            principal,
            _SQL["put"],
            new_id(),
            thread.user_id,
            thread.thread_id,
            checkpoint.ns,
            checkpoint.checkpoint_id,
            checkpoint.parent_id,
            checkpoint.type,
            checkpoint.data,
            checkpoint.metadata,
            checkpoint.versions,
            [v.channel for v in values],
            [v.version for v in values],
            [v.type for v in values],
            [v.data for v in values],
            self._most,
        )

    async def put_writes(
        self, principal: Principal, thread: Thread, ns: str, checkpoint_id: str, writes: Sequence[ChannelWrite]
    ) -> None:
        """Store writes; their checkpoint may come later. Raise the same errors as `put_checkpoint`."""
        await self._uow.call(
            principal,
            _SQL["writes"],
            new_id(),
            thread.user_id,
            thread.thread_id,
            ns,
            checkpoint_id,
            *_write_columns(writes),
            self._most,
        )

    async def get_checkpoint(
        self, principal: Principal, thread: Thread, ns: str, checkpoint_id: str | None
    ) -> Row | None:
        """Return one checkpoint, or the newest of its namespace if `checkpoint_id` is None."""
        rows = await self._uow.call_anywhere(
            principal, _SQL["get"], thread.user_id, thread.thread_id, ns, checkpoint_id
        )
        return rows[0] if rows else None

    async def list_checkpoints(
        self, principal: Principal, wanted: CheckpointFilter, after: Sequence[str] | None, limit: int, most: int
    ) -> list[Row]:
        """Return checkpoints, newest first: always one, then as many as fit into `most` bytes."""
        return await self._uow.call_anywhere(
            principal,
            _SQL["page"],
            wanted.user_id,
            wanted.thread_id,
            wanted.ns,
            wanted.checkpoint_id,
            wanted.before,
            wanted.metadata or {},
            after,
            limit,
            most,
        )

    async def delete_threads(self, principal: Principal, user_id: str, thread_ids: Sequence[str]) -> int:
        """Delete threads that a saver keeps; return how many there were."""
        return await self._call_counted(principal, "delete_threads", user_id, thread_ids)

    async def delete_runs(self, principal: Principal, user_id: str | None, run_ids: Sequence[str]) -> int:
        """Delete the checkpoints of these runs; return how many there were."""
        return await self._call_counted(principal, "delete_runs", user_id, run_ids)

    async def prune_threads(self, principal: Principal, user_id: str, thread_ids: Sequence[str]) -> int:
        """Delete all but the newest checkpoint of each namespace; return how many were deleted."""
        return await self._call_counted(principal, "prune", user_id, thread_ids)

    async def copy_thread(self, principal: Principal, source: Thread, target_id: str) -> int:
        """Copy a thread to another one of the same user; return the number of checkpoints. Raise WrongState."""
        return await self._call_counted(principal, "copy", new_id(), source.user_id, source.thread_id, target_id)

    async def _call_counted(self, principal: Principal, name: str, *args: Any) -> int:
        rows = await self._uow.call(principal, _SQL[name], *args)
        count: int = rows[0]["count"]
        return count


def _write_columns(writes: Sequence[ChannelWrite]) -> tuple[list[Any], ...]:
    unique = distinct_writes(writes)
    names = "task_id", "idx", "task_path", "channel", "type", "data"
    return tuple([getattr(write, name) for write in unique] for name in names)
