"""Checkpoints of agents (seed 003 §15, SPEC §10): a latest state for everybody, a lineage for checkpoint savers."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.agent_state.checkpoints import (
    ChannelWrite,
    Checkpoint,
    CheckpointFilter,
    LatestState,
    Thread,
    require_unbound_key,
    state_text,
    written_bytes,
)
from app.domain.errors import BodyTooLarge
from app.domain.paging import decode_place, encode_place
from app.domain.principal import Principal
from app.storage.agent_state.checkpoints import CheckpointStorage
from app.storage.uow import Row
from app.usecases.offload import offload_if_large


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

    async def put_state(
        self, scope: Principal, thread: Thread, raw: bytes, *, binary: bool, version: int | None
    ) -> LatestState:
        """Store a thread's state whole: a JSON object, or bytes. `version`: the one it replaces, 0 for none.

        Raises MalformedState, NulByte, InvalidInput, BodyTooLarge, VersionConflict, WrongState.
        """
        require_unbound_key(scope)
        self._check_size(len(raw))
        if binary:
            return await self._storage.put_state(scope, thread, None, raw, version)
        text = await offload_if_large(len(raw), state_text, raw)
        return await self._storage.put_state(scope, thread, text, None, version)

    async def get_state(self, scope: Principal, thread: Thread) -> LatestState:
        """A thread's latest state; raises NotFound."""
        require_unbound_key(scope)
        return await self._storage.get_state(scope, thread)

    async def delete_state(self, scope: Principal, thread: Thread, version: int | None) -> None:
        """Delete all that is held of a thread; raises NotFound, VersionConflict."""
        require_unbound_key(scope)
        await self._storage.delete_state(scope, thread, version)

    async def put_checkpoint(self, scope: Principal, checkpoint: Checkpoint) -> None:
        """Store a saver's checkpoint; raises BodyTooLarge, StateTooLarge, WrongState."""
        require_unbound_key(scope)
        self._check_size(written_bytes(checkpoint))
        await self._storage.put_checkpoint(scope, checkpoint)

    async def put_writes(
        self, scope: Principal, thread: Thread, ns: str, checkpoint_id: str, writes: Sequence[ChannelWrite]
    ) -> None:
        """Store what tasks wrote; raises as `put`."""
        require_unbound_key(scope)
        self._check_size(sum(len(write.data) for write in writes))
        await self._storage.put_writes(scope, thread, ns, checkpoint_id, writes)

    async def get_checkpoint(self, scope: Principal, thread: Thread, ns: str, checkpoint_id: str | None) -> Row | None:
        """A row of `get_checkpoint`, the newest without a `checkpoint_id`; None: there is none."""
        require_unbound_key(scope)
        return await self._storage.get_checkpoint(scope, thread, ns, checkpoint_id)

    async def list_checkpoints(
        self, scope: Principal, wanted: CheckpointFilter, cursor: str | None, limit: int
    ) -> CheckpointPage:
        """A page of checkpoints, shorter where they are large; raises InvalidCursor."""
        require_unbound_key(scope)
        after = decode_place(cursor)
        rows = await self._storage.list_checkpoints(scope, wanted, after, limit, 2 * self._max)
        more = bool(rows) and rows[-1]["more"]
        return CheckpointPage(rows, encode_place(rows[-1]["place"]) if more else None)

    async def delete_threads(self, scope: Principal, user_id: str, thread_ids: Sequence[str]) -> int:
        """How many of these threads a saver kept; they are gone."""
        require_unbound_key(scope)
        return await self._storage.delete_threads(scope, user_id, thread_ids)

    async def delete_runs(self, scope: Principal, user_id: str | None, run_ids: Sequence[str]) -> int:
        """How many checkpoints these runs had made, of one user or of all; they are gone."""
        require_unbound_key(scope)
        return await self._storage.delete_runs(scope, user_id, run_ids)

    async def prune_threads(self, scope: Principal, user_id: str, thread_ids: Sequence[str]) -> int:
        """Leave the newest checkpoint of each namespace; how many went."""
        require_unbound_key(scope)
        return await self._storage.prune_threads(scope, user_id, thread_ids)

    async def copy_thread(self, scope: Principal, source: Thread, target_id: str) -> int:
        """Copy a thread to another of the same user; how many checkpoints. Raises WrongState."""
        require_unbound_key(scope)
        return await self._storage.copy_thread(scope, source, target_id)

    def _check_size(self, size: int) -> None:
        if size > self._max:
            raise BodyTooLarge(f"at most {self._max} bytes")
