"""Checkpoints of agents: a thread's latest state, and the lineage of a checkpoint saver (`docs/contract.md`)."""

from collections.abc import Sequence

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
from app.domain.paging import Page, decode_place, encode_place
from app.domain.principal import Principal
from app.storage.agent_state.checkpoints import CheckpointStorage
from app.storage.uow import Row
from app.usecases.offload import offload_if_large


class Checkpoints:
    """The use-cases of checkpoints. Every method raises AgentNotAllowed for a key bound to agents."""

    def __init__(self, storage: CheckpointStorage, max_bytes: int) -> None:
        self._storage = storage
        self._max = max_bytes

    async def put_state(
        self, principal: Principal, thread: Thread, raw: bytes, *, binary: bool, version: int | None
    ) -> LatestState:
        """Replace a thread's state by `raw`: a JSON object, or with `binary` any bytes.

        `version` is the version to replace: 0 means that there is none, None accepts any. Raise MalformedState,
        NulByte, InvalidInput, BodyTooLarge, VersionConflict or WrongState.
        """
        require_unbound_key(principal)
        self._check_size(len(raw))
        if binary:
            return await self._storage.put_state(principal, thread, None, raw, version)
        text = await offload_if_large(len(raw), state_text, raw)
        return await self._storage.put_state(principal, thread, text, None, version)

    async def get_state(self, principal: Principal, thread: Thread) -> LatestState:
        """Return a thread's latest state; raise NotFound if it has none."""
        require_unbound_key(principal)
        return await self._storage.get_state(principal, thread)

    async def delete_state(self, principal: Principal, thread: Thread, version: int | None) -> None:
        """Delete everything stored for a thread; raise NotFound or VersionConflict."""
        require_unbound_key(principal)
        await self._storage.delete_state(principal, thread, version)

    async def put_checkpoint(self, principal: Principal, checkpoint: Checkpoint) -> None:
        """Store a saver's checkpoint; raise BodyTooLarge, StateTooLarge or WrongState."""
        require_unbound_key(principal)
        self._check_size(written_bytes(checkpoint))
        await self._storage.put_checkpoint(principal, checkpoint)

    async def put_writes(
        self, principal: Principal, thread: Thread, ns: str, checkpoint_id: str, writes: Sequence[ChannelWrite]
    ) -> None:
        """Store the pending writes of tasks; raise what `put_checkpoint` raises."""
        require_unbound_key(principal)
        self._check_size(sum(len(write.data) for write in writes))
        await self._storage.put_writes(principal, thread, ns, checkpoint_id, writes)

    async def get_checkpoint(
        self, principal: Principal, thread: Thread, ns: str, checkpoint_id: str | None
    ) -> Row | None:
        """Return the checkpoint, or the newest one if `checkpoint_id` is None. Return None if there is none."""
        require_unbound_key(principal)
        return await self._storage.get_checkpoint(principal, thread, ns, checkpoint_id)

    async def list_checkpoints(
        self, principal: Principal, filters: CheckpointFilter, cursor: str | None, limit: int
    ) -> Page[Row]:
        """Return a page of at most `limit` checkpoints, fewer if they are large. Raise InvalidCursor."""
        require_unbound_key(principal)
        after = decode_place(cursor)
        rows = await self._storage.list_checkpoints(principal, filters, after, limit, 2 * self._max)
        more = bool(rows) and rows[-1]["more"]
        return Page(rows, encode_place(rows[-1]["place"]) if more else None)

    async def delete_threads(self, principal: Principal, user_id: str, thread_ids: Sequence[str]) -> int:
        """Delete a saver's threads. Return how many of them existed."""
        require_unbound_key(principal)
        return await self._storage.delete_threads(principal, user_id, thread_ids)

    async def delete_runs(self, principal: Principal, user_id: str | None, run_ids: Sequence[str]) -> int:
        """Delete the checkpoints of runs, of one user or (None) of all. Return how many there were."""
        require_unbound_key(principal)
        return await self._storage.delete_runs(principal, user_id, run_ids)

    async def prune_threads(self, principal: Principal, user_id: str, thread_ids: Sequence[str]) -> int:
        """Delete all but the newest checkpoint of each namespace. Return how many were deleted."""
        require_unbound_key(principal)
        return await self._storage.prune_threads(principal, user_id, thread_ids)

    async def copy_thread(self, principal: Principal, source: Thread, target_id: str) -> int:
        """Copy a thread to another thread of the same user. Return the number of checkpoints. Raise WrongState."""
        require_unbound_key(principal)
        return await self._storage.copy_thread(principal, source, target_id)

    def _check_size(self, size: int) -> None:
        if size > self._max:
            raise BodyTooLarge(f"at most {self._max} bytes")
