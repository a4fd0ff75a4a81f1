"""LangGraph's checkpoint saver on a Mnema server: `graph.compile(checkpointer=MnemaSaver(user_id="maya"))`."""

import copy
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from mnema_client.errors import CannotBeSent
from mnema_client.langgraph import wire
from mnema_client.langgraph.connections import AiohttpSender
from mnema_client.transport import Retry, Sender, build_connection


class Ancestors:
    """A walk from a checkpoint to its root, over a list of its namespace, newest first. It skips other branches."""

    def __init__(self, channels: Sequence[str], target: CheckpointTuple | None) -> None:
        self._writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
        self._seeds: dict[str, Any] = {}
        self._open = set(channels)
        self._next = _checkpoint_id(target.parent_config) if target else None
        self.line: RunnableConfig = {"configurable": _namespace_config(target)}

    @property
    def has_more(self) -> bool:
        """True if an older ancestor may still hold a value or a write."""
        return bool(self._open) and self._next is not None

    def take_ancestor(self, checkpoint: CheckpointTuple) -> bool:
        """Read the next checkpoint of the list; return False when nothing more is needed."""
        if _checkpoint_id(checkpoint.config) != self._next:
            return True
        for write in reversed(checkpoint.pending_writes or []):
            if write[1] in self._open:
                self._writes[write[1]].append(write)
        for channel in self._open & checkpoint.checkpoint["channel_values"].keys():
            self._seeds[channel] = checkpoint.checkpoint["channel_values"][channel]
            self._open.discard(channel)
        self._next = _checkpoint_id(checkpoint.parent_config)
        return self.has_more

    def channel_histories(self) -> Mapping[str, DeltaChannelHistory]:
        """Return each channel's writes, oldest first, and the value before them if one was stored."""
        histories: dict[str, DeltaChannelHistory] = {}
        for channel, writes in self._writes.items():
            histories[channel] = {"writes": writes[::-1]}
            if channel in self._seeds:
                histories[channel]["seed"] = self._seeds[channel]
        return histories


def _checkpoint_id(config: RunnableConfig | None) -> str | None:
    return config["configurable"]["checkpoint_id"] if config else None


def _namespace_config(target: CheckpointTuple | None) -> dict[str, Any]:
    """Return the target's config without its checkpoint id."""
    named = target.config["configurable"] if target else {}
    return {name: value for name, value in named.items() if name != "checkpoint_id"}


PAGE = 100
STRATEGIES = {"keep_latest": "prune", "delete": "delete"}


class MnemaSaver(BaseCheckpointSaver[str]):
    """A checkpoint saver for sync and async graphs. Threads and tasks may share one; none waits for another.

    `user_id`: the owner of the threads; the same thread id of another user is another thread. Without it, each config
    names its user in `configurable`, and lists and `delete_for_runs` cover all users. Methods that take only a thread
    id then need `for_user(...)`. The API key needs the scopes query and write and must not be bound to agents.

    `serde`: LangGraph's serialiser of stored values; the server does not read them. Methods raise MnemaError. Transient
    failures are retried, and a retry stores once.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        user_id: str | None = None,
        serde: SerializerProtocol | None = None,
        timeout_s: float = 30.0,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(serde=serde)
        where = build_connection(base_url, api_key, timeout_s=timeout_s, retry=retry)
        self.user_id = user_id
        self._sync, self._async = Sender(where), AiohttpSender(where)

    def for_user(self, user_id: str) -> Self:
        """Return the same saver for one user; both share their connections."""
        bound = copy.copy(self)
        bound.user_id = user_id
        return bound

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest of its thread and namespace, or None."""
        return self._sync.send(wire.get_checkpoint(self.serde, wire.place_of(config, self.user_id)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint as `get_tuple` does."""
        return await self._async.send(wire.get_checkpoint(self.serde, wire.place_of(config, self.user_id)))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as the child of the one that the config names; return the new checkpoint's config."""
        place = wire.place_of(config, self.user_id)
        self._sync.send(wire.put_checkpoint(self.serde, place, config, checkpoint, metadata, new_versions))
        return place.checkpoint_config(checkpoint["id"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as `put` does."""
        place = wire.place_of(config, self.user_id)
        await self._async.send(wire.put_checkpoint(self.serde, place, config, checkpoint, metadata, new_versions))
        return place.checkpoint_config(checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task after the checkpoint that the config names."""
        place = wire.place_of(config, self.user_id)
        self._sync.send(wire.put_writes(self.serde, place, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store writes as `put_writes` does."""
        place = wire.place_of(config, self.user_id)
        await self._async.send(wire.put_writes(self.serde, place, writes, task_id, task_path))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first, page by page. `filter`: metadata that must be equal, key by key."""
        conditions = wire.list_conditions(config, self.user_id, filter, before)
        named = self._names_user(config)
        left = limit
        cursor = None
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            page = self._sync.send(wire.list_checkpoints(self.serde, conditions, named, size, cursor))
            yield from page.items
            left, cursor = None if left is None else left - len(page.items), page.cursor
            if cursor is None:
                return

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints as `list` does."""
        conditions = wire.list_conditions(config, self.user_id, filter, before)
        named = self._names_user(config)
        left = limit
        cursor = None
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            page = await self._async.send(wire.list_checkpoints(self.serde, conditions, named, size, cursor))
            for item in page.items:
                yield item
            left, cursor = None if left is None else left - len(page.items), page.cursor
            if cursor is None:
                return

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its checkpoints and writes."""
        self._send_batches("delete", "thread_ids", [thread_id])

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread as `delete_thread` does."""
        await self._asend_batches("delete", "thread_ids", [thread_id])

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, with their writes."""
        self._send_batches("delete_runs", "run_ids", run_ids, all_users=True)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete checkpoints as `delete_for_runs` does."""
        await self._asend_batches("delete_runs", "run_ids", run_ids, all_users=True)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep each namespace's newest checkpoint and what its DeltaChannels need; `delete` removes the threads."""
        self._send_batches(_prune_path(strategy), "thread_ids", thread_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Prune threads as `prune` does."""
        await self._asend_batches(_prune_path(strategy), "thread_ids", thread_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history to another thread of the same user."""
        body = {"source_thread_id": source_thread_id, "target_thread_id": target_thread_id}
        self._sync.send(wire.saver_call("copy", {**self._user_body(), **body}, wire.ignore_body))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread as `copy_thread` does."""
        body = {"source_thread_id": source_thread_id, "target_thread_id": target_thread_id}
        await self._async.send(wire.saver_call("copy", {**self._user_body(), **body}, wire.ignore_body))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the history of each channel, back to where it was last stored whole."""
        target = self.get_tuple(config) if channels else None
        walk = Ancestors(channels, target)
        if target is not None and walk.has_more:
            for checkpoint in self.list(walk.line, before=target.config):
                if not walk.take_ancestor(checkpoint):
                    break
        return walk.channel_histories()

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return histories as `get_delta_channel_history` does."""
        target = await self.aget_tuple(config) if channels else None
        walk = Ancestors(channels, target)
        if target is not None and walk.has_more:
            async for checkpoint in self.alist(walk.line, before=target.config):
                if not walk.take_ancestor(checkpoint):
                    break
        return walk.channel_histories()

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """Return a version after `current`. Two branches of a thread never give the same version to two values."""
        number = 0 if current is None else current if isinstance(current, int) else int(current.split(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    def close(self) -> None:
        """Close the connections of the sync methods."""
        self._sync.close()

    async def aclose(self) -> None:
        """Close all connections."""
        self._sync.close()
        await self._async.close()

    def _names_user(self, config: RunnableConfig | None) -> bool:
        return self.user_id is None or "user_id" in (config or {}).get("configurable", {})

    def _user_body(self, *, all_users: bool = False) -> dict[str, str]:
        if self.user_id is not None:
            return {"user_id": self.user_id}
        if all_users:
            return {}
        raise CannotBeSent("this saver has no user; call saver.for_user(user_id) first")

    def _send_batches(self, path: str, field: str, names: Sequence[str], *, all_users: bool = False) -> None:
        for batch in wire.split_batches(names):
            self._sync.send(
                wire.saver_call(path, {**self._user_body(all_users=all_users), field: batch}, wire.ignore_body)
            )

    async def _asend_batches(self, path: str, field: str, names: Sequence[str], *, all_users: bool = False) -> None:
        for batch in wire.split_batches(names):
            await self._async.send(
                wire.saver_call(path, {**self._user_body(all_users=all_users), field: batch}, wire.ignore_body)
            )


def _prune_path(strategy: str) -> str:
    if strategy not in STRATEGIES:
        raise CannotBeSent(f"unknown strategy {strategy!r}; use one of {', '.join(STRATEGIES)}")
    return STRATEGIES[strategy]
