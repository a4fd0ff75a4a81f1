"""LangGraph's checkpoint saver, kept by Mnema: `graph.compile(checkpointer=MnemaSaver(user_id="maya"))`."""

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
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from mnema.client import build_connection
from mnema.langgraph import wire
from mnema.langgraph.ancestors import Ancestors
from mnema.langgraph.connections import AiohttpSender
from mnema.transport import Retry, Sender

PAGE = 100
STRATEGIES = {"keep_latest": "prune", "delete": "delete"}


class MnemaSaver(BaseCheckpointSaver[str]):
    """Checkpoints on a Mnema server, for sync and async graphs alike; threads and tasks may share one, none waits for
    another.

    `user_id`: whose threads these are: the same thread id of another user is another thread. Without it each config
    names its user in `configurable`, lists and `delete_for_runs` are of all users, and what takes a thread id alone is
    asked of `for_user(...)`. The API key needs the scopes query and write and is bound to no agent. `serde`, as
    LangGraph has it, writes what is stored; the server does not look into it. Errors are MnemaError; a call that failed
    for now is sent again, which does it once.
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
        """The same saver for one user; both share their connections."""
        bound = copy.copy(self)
        bound.user_id = user_id
        return bound

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, or the newest of its thread and namespace."""
        return self._sync.send(wire.get_checkpoint(self.serde, wire.place_of(config, self.user_id)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return await self._async.send(wire.get_checkpoint(self.serde, wire.place_of(config, self.user_id)))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint as the child of the one that the config names; its own config."""
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
        """As `put`."""
        place = wire.place_of(config, self.user_id)
        await self._async.send(wire.put_checkpoint(self.serde, place, config, checkpoint, metadata, new_versions))
        return place.checkpoint_config(checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote since the checkpoint that the config names."""
        place = wire.place_of(config, self.user_id)
        self._sync.send(wire.put_writes(self.serde, place, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `put_writes`."""
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
        """Checkpoints, newest first, asked for in pages. `filter`: metadata that must be equal, key by key."""
        wanted, named = wire.list_conditions(config, self.user_id, filter, before), self._names_user(config)
        left, cursor = limit, None
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            page = self._sync.send(wire.list_checkpoints(self.serde, wanted, named, size, cursor))
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
        """As `list`."""
        wanted, named = wire.list_conditions(config, self.user_id, filter, before), self._names_user(config)
        left, cursor = limit, None
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            page = await self._async.send(wire.list_checkpoints(self.serde, wanted, named, size, cursor))
            for item in page.items:
                yield item
            left, cursor = None if left is None else left - len(page.items), page.cursor
            if cursor is None:
                return

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all that hangs on it."""
        self._send_batches("delete", "thread_ids", [thread_id])

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await self._asend_batches("delete", "thread_ids", [thread_id])

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs made, with their writes."""
        self._send_batches("delete_runs", "run_ids", run_ids, anybodys=True)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        await self._asend_batches("delete_runs", "run_ids", run_ids, anybodys=True)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Leave of each namespace the newest checkpoint, and what a DeltaChannel of it is made of; or `delete`."""
        self._send_batches(_prune_path(strategy), "thread_ids", thread_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        await self._asend_batches(_prune_path(strategy), "thread_ids", thread_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with its whole history to another of the same user."""
        body = {"source_thread_id": source_thread_id, "target_thread_id": target_thread_id}
        self._sync.send(wire.saver_call("copy", {**self._user_body(), **body}, wire.ignore_body))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        body = {"source_thread_id": source_thread_id, "target_thread_id": target_thread_id}
        await self._async.send(wire.saver_call("copy", {**self._user_body(), **body}, wire.ignore_body))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What made each of these channels, back to where it was last stored whole: a page of ancestors at a time."""
        target = self.get_tuple(config) if channels else None
        walk = Ancestors(channels, target)
        if target is not None and walk.has_more:
            for found in self.list(walk.line, before=target.config):
                if not walk.take_ancestor(found):
                    break
        return walk.channel_histories()

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `get_delta_channel_history`."""
        target = await self.aget_tuple(config) if channels else None
        walk = Ancestors(channels, target)
        if target is not None and walk.has_more:
            async for found in self.alist(walk.line, before=target.config):
                if not walk.take_ancestor(found):
                    break
        return walk.channel_histories()

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """A version behind `current`: two branches of a thread never give the same one to two values."""
        number = 0 if current is None else current if isinstance(current, int) else int(current.split(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    def close(self) -> None:
        """Put the connections of the sync methods away."""
        self._sync.close()

    async def aclose(self) -> None:
        """Put all connections away."""
        self._sync.close()
        await self._async.close()

    def _names_user(self, config: RunnableConfig | None) -> bool:
        return self.user_id is None or "user_id" in (config or {}).get("configurable", {})

    def _user_body(self, *, anybodys: bool = False) -> dict[str, str]:
        if self.user_id is not None:
            return {"user_id": self.user_id}
        if anybodys:
            return {}
        raise ValueError("whose thread is it? ask saver.for_user(user_id)")

    def _send_batches(self, path: str, field: str, names: Sequence[str], *, anybodys: bool = False) -> None:
        for batch in wire.split_batches(names):
            self._sync.send(
                wire.saver_call(path, {**self._user_body(anybodys=anybodys), field: batch}, wire.ignore_body)
            )

    async def _asend_batches(self, path: str, field: str, names: Sequence[str], *, anybodys: bool = False) -> None:
        for batch in wire.split_batches(names):
            await self._async.send(
                wire.saver_call(path, {**self._user_body(anybodys=anybodys), field: batch}, wire.ignore_body)
            )


def _prune_path(strategy: str) -> str:
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy is one of {', '.join(STRATEGIES)}")
    return STRATEGIES[strategy]
