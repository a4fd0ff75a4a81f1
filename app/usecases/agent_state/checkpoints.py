"""Checkpoints of agents (seed 003 §15, SPEC §10): a latest state for everybody, a lineage for checkpoint savers."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.agent_state.checkpoints import (
    Checkpoint,
    State,
    Thread,
    Wanted,
    Write,
    require_unbound,
    size,
    state_text,
)
from app.domain.errors import BodyTooLarge
from app.domain.paging import decode_place, encode_place
from app.domain.principal import Scope
from app.storage.agent_state.checkpoints import CheckpointStorage
from app.storage.uow import Row
from app.usecases.offload import aside


@dataclass(frozen=True, slots=True)
class CheckpointPage:
    """Rows of `list_checkpoints`, newest first; `next_cursor` None on the last page."""

    items: list[Row]
    next_cursor: str | None


class Checkpoints:
    """No key bound to agents gets here: AgentNotAllowed from every method."""

    def __init__(self, storage: CheckpointStorage, max_bytes: int) -> None:
        self._storage = storage
        self._max = max_bytes

    async def put_state(self, scope: Scope, thread: Thread, raw: bytes, *, binary: bool, version: int | None) -> State:
        """Store a thread's state whole: a JSON object, or bytes. `version`: the one it replaces, 0 for none.

        Raises MalformedState, NulByte, InvalidInput, BodyTooLarge, VersionConflict, WrongState.
        """
        require_unbound(scope)
        self._check(len(raw))
        if binary:
            return await self._storage.put_state(scope, thread, None, raw, version)
        text = await aside(len(raw), state_text, raw)
        return await self._storage.put_state(scope, thread, text, None, version)

    async def state(self, scope: Scope, thread: Thread) -> State:
        """A thread's latest state; raises NotFound."""
        require_unbound(scope)
        return await self._storage.state(scope, thread)

    async def delete_state(self, scope: Scope, thread: Thread, version: int | None) -> None:
        """Delete all that is held of a thread; raises NotFound, VersionConflict."""
        require_unbound(scope)
        await self._storage.delete_state(scope, thread, version)

    async def put(self, scope: Scope, checkpoint: Checkpoint) -> None:
        """Store a saver's checkpoint; raises BodyTooLarge, StateTooLarge, WrongState."""
        require_unbound(scope)
        self._check(size(checkpoint))
        await self._storage.put(scope, checkpoint)

    async def write(self, scope: Scope, thread: Thread, ns: str, checkpoint_id: str, writes: Sequence[Write]) -> None:
        """Store what tasks wrote; raises as `put`."""
        require_unbound(scope)
        self._check(sum(len(write.data) for write in writes))
        await self._storage.write(scope, thread, ns, checkpoint_id, writes)

    async def get(self, scope: Scope, thread: Thread, ns: str, checkpoint_id: str | None) -> Row | None:
        """A row of `get_checkpoint`, the newest without a `checkpoint_id`; None: there is none."""
        require_unbound(scope)
        return await self._storage.get(scope, thread, ns, checkpoint_id)

    async def page(self, scope: Scope, wanted: Wanted, cursor: str | None, limit: int) -> CheckpointPage:
        """A page of checkpoints, shorter where they are large; raises InvalidCursor."""
        require_unbound(scope)
        after = decode_place(cursor)
        rows = await self._storage.page(scope, wanted, after, limit, 2 * self._max)
        more = bool(rows) and rows[-1]["more"]
        return CheckpointPage(rows, encode_place(rows[-1]["place"]) if more else None)

    async def delete_threads(self, scope: Scope, user_id: str, thread_ids: Sequence[str]) -> int:
        """How many of these threads a saver kept; they are gone."""
        require_unbound(scope)
        return await self._storage.delete_threads(scope, user_id, thread_ids)

    async def delete_runs(self, scope: Scope, user_id: str | None, run_ids: Sequence[str]) -> int:
        """How many checkpoints these runs had made, of one user or of all; they are gone."""
        require_unbound(scope)
        return await self._storage.delete_runs(scope, user_id, run_ids)

    async def prune(self, scope: Scope, user_id: str, thread_ids: Sequence[str]) -> int:
        """Leave the newest checkpoint of each namespace; how many went."""
        require_unbound(scope)
        return await self._storage.prune(scope, user_id, thread_ids)

    async def copy(self, scope: Scope, source: Thread, target_id: str) -> int:
        """Copy a thread to another of the same user; how many checkpoints. Raises WrongState."""
        require_unbound(scope)
        return await self._storage.copy(scope, source, target_id)

    def _check(self, size: int) -> None:
        if size > self._max:
            raise BodyTooLarge(f"at most {self._max} bytes")
