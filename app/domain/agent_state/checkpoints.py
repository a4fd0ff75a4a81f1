"""Checkpoints of agents (seed 003 §15): a thread's latest state as a whole, or the lineage that a saver keeps of it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from app.domain.errors import AgentNotAllowed, InvalidInput, MalformedState, NulByte
from app.domain.principal import Principal

CHECKPOINT_SIZE_FACTOR = 4
"""How many times the largest body a checkpoint may hold: values that did not change are not sent again."""

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class LatestState:
    """A thread's latest state. `json` is its text, or None where the state is `binary`. `version` begins at 1."""

    version: int
    json: str | None
    binary: bytes | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of a user: the same id of another user is another thread."""

    user_id: str
    thread_id: str


@dataclass(frozen=True, slots=True)
class ChannelValue:
    """What a channel holds: `data` as a saver wrote it, in the way it calls `type`."""

    channel: str
    version: str
    type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ChannelWrite:
    """What a task wrote to a channel. Below 0 `idx` names a kind (error, interrupt, …) of which a task has one."""

    task_id: str
    task_path: str
    idx: int
    channel: str
    type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint to be stored. `versions`: of each channel; `values`: those of the channels that changed."""

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
    """Which checkpoints to list; None: it does not matter. `metadata`: what must be equal, key by key."""

    user_id: str | None = None
    thread_id: str | None = None
    ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    metadata: Mapping[str, Any] | None = None


def require_unbound_key(scope: Principal) -> None:
    """Raise AgentNotAllowed for a key bound to agents.

    A checkpoint holds whatever a graph knows, of every category, and cannot be filtered by them.
    """
    if scope.categories is not None:
        raise AgentNotAllowed("a checkpoint may hold any category: this route needs a key that is bound to no agent")


def state_text(raw: bytes) -> str:
    """The JSON text of a state, checked; raises MalformedState, NulByte, InvalidInput if it is no object."""
    try:
        state = orjson.loads(raw)
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
    """One a task and idx: of a kind that is written again the last, else the first."""
    found: dict[tuple[str, int], ChannelWrite] = {}
    for write in writes:
        place = write.task_id, write.idx
        if write.idx < 0 or place not in found:
            found[place] = write
    return list(found.values())


def distinct_values(values: Iterable[ChannelValue]) -> list[ChannelValue]:
    """One a channel and version: the last."""
    return list({(value.channel, value.version): value for value in values}.values())


def written_bytes(checkpoint: Checkpoint) -> int:
    """Bytes of what a saver wrote."""
    return len(checkpoint.data) + sum(len(value.data) for value in checkpoint.values)
