"""What a DeltaChannel was made of: the writes of the ancestors of a checkpoint, back to where it was stored whole."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite


class Ancestors:
    """Walks from a checkpoint to its root along a list of its namespace, newest first; branches are passed by."""

    def __init__(self, channels: Sequence[str], target: CheckpointTuple | None) -> None:
        self._writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
        self._seeds: dict[str, Any] = {}
        self._open = set(channels)
        self._next = _checkpoint_id(target.parent_config) if target else None
        self.line: RunnableConfig = {"configurable": _namespace_config(target)}

    @property
    def has_more(self) -> bool:
        """Whether there is more to look for."""
        return bool(self._open) and self._next is not None

    def take_ancestor(self, found: CheckpointTuple) -> bool:
        """Look at the next of the list; whether to go on."""
        if _checkpoint_id(found.config) != self._next:
            return True
        for write in reversed(found.pending_writes or []):
            if write[1] in self._open:
                self._writes[write[1]].append(write)
        for channel in self._open & found.checkpoint["channel_values"].keys():
            self._seeds[channel] = found.checkpoint["channel_values"][channel]
            self._open.discard(channel)
        self._next = _checkpoint_id(found.parent_config)
        return self.has_more

    def channel_histories(self) -> Mapping[str, DeltaChannelHistory]:
        """Of each channel the writes, oldest first, and the value that they follow, where one was stored."""
        found: dict[str, DeltaChannelHistory] = {}
        for channel, writes in self._writes.items():
            found[channel] = {"writes": writes[::-1]}
            if channel in self._seeds:
                found[channel]["seed"] = self._seeds[channel]
        return found


def _checkpoint_id(config: RunnableConfig | None) -> str | None:
    return config["configurable"]["checkpoint_id"] if config else None


def _namespace_config(target: CheckpointTuple | None) -> dict[str, Any]:
    """Everything of the target's config but the checkpoint."""
    named = target.config["configurable"] if target else {}
    return {name: value for name, value in named.items() if name != "checkpoint_id"}
