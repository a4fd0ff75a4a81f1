"""The history of a DeltaChannel: writes of a checkpoint's ancestors, back to where the value was stored whole."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite


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
