"""Checkpoints of agents: a thread's latest state as a whole, or the lineage of checkpoints that a saver stores."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from mnema_wire.unique_keys import RepeatedKey, check_unique_keys

from app.domain.errors import AgentNotAllowed, InvalidInput, MalformedState, NulByte
from app.domain.principal import Principal

CHECKPOINT_SIZE_FACTOR = 4
"""The factor by which a checkpoint may exceed the largest body. Unchanged values are not sent again."""

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class LatestState:
    """A thread's latest state: either `json`, a JSON text, or `binary`. `version` starts at 1."""

    version: int
    json: str | None
    binary: bytes | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of a user. The same thread id of another user is another thread."""

    user_id: str
    thread_id: str


@dataclass(frozen=True, slots=True)
class ChannelValue:
    """The value of a channel: `data` as a saver serialised it, in the format that the saver calls `type`."""

    channel: str
    version: str
    type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ChannelWrite:
    """A pending write of a task to a channel.

    A negative `idx` stands for a kind (error, interrupt, …); a task has at most one write of each.
    """

    task_id: str
    task_path: str
    idx: int
    channel: str
    type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint to store. `versions` has the version of each channel, `values` only the changed channels."""

    thread: Thread
    ns: str
    checkpoint_id: str
    parent_id: str | None
    type: str
    data: bytes
    metadata: Mapping[str, Any]
    versions: Mapping[str, str]
    values: tuple[ChannelValue, ...]


@dataclass(frozen=True, slots=True)
class CheckpointFilter:
    """Conditions on the checkpoints to list; None means no condition. Each key of `metadata` must be equal."""

    user_id: str | None = None
    thread_id: str | None = None
    ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    metadata: Mapping[str, Any] | None = None


def require_unbound_key(principal: Principal) -> None:
    """Raise AgentNotAllowed if the key is bound to agents.

    A checkpoint may hold data of every category, and it cannot be filtered by category.
    """
    if principal.categories is not None:
        raise AgentNotAllowed("a checkpoint may hold any category: this route needs a key that is bound to no agent")


def state_text(raw: bytes) -> str:
    """Return the JSON text of a state.

    Raise MalformedState if it is not JSON, InvalidInput if it is no object or an object in it names a key twice,
    NulByte if it holds U+0000.
    """
    try:
        state = orjson.loads(raw)
        check_unique_keys(raw)
    except RepeatedKey as error:
        raise InvalidInput(f"body: {error}", param=error.key) from error
    except ValueError as error:
        raise MalformedState() from error
    if not isinstance(state, dict):
        raise InvalidInput("a state is a JSON object")
    if _NUL.search(raw):
        raise NulByte(
            "the state holds \\u0000, which PostgreSQL cannot store as JSON; put it as application/octet-stream"
        )
    return raw.decode()


def distinct_writes(writes: Iterable[ChannelWrite]) -> list[ChannelWrite]:
    """Return one write for each task and idx: the last one for a negative idx, else the first."""
    by_place: dict[tuple[str, int], ChannelWrite] = {}
    for write in writes:
        place = write.task_id, write.idx
        if write.idx < 0 or place not in by_place:
            by_place[place] = write
    return list(by_place.values())


def distinct_values(values: Iterable[ChannelValue]) -> list[ChannelValue]:
    """Return one value for each channel and version: the last."""
    return list({(value.channel, value.version): value for value in values}.values())


def written_bytes(checkpoint: Checkpoint) -> int:
    """Return the size in bytes of the checkpoint's data and values."""
    return len(checkpoint.data) + sum(len(value.data) for value in checkpoint.values)
