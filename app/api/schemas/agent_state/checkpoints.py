"""Conversions between the bodies of /saver and the domain."""

from collections.abc import Mapping
from typing import Any

from mnema_wire import checkpoints as wire

from app.domain.agent_state.checkpoints import ChannelValue, ChannelWrite, Checkpoint, CheckpointFilter, Thread


def thread_of(body: wire.ThreadRequest) -> Thread:
    """Return the thread of this user."""
    return Thread(body.user_id, body.thread_id)


def to_checkpoint(body: wire.CheckpointIn) -> Checkpoint:
    """Return the checkpoint to store."""
    return Checkpoint(
        thread=thread_of(body),
        ns=body.ns,
        checkpoint_id=body.checkpoint_id,
        parent_id=body.parent_id,
        type=body.type,
        data=body.data,
        metadata=body.metadata,
        versions=body.versions,
        values=tuple(ChannelValue(v.channel, v.version, v.type, v.data) for v in body.values),
    )


def to_channel_write(body: wire.WriteIn) -> ChannelWrite:
    """Return the write to store."""
    return ChannelWrite(body.task_id, body.task_path, body.idx, body.channel, body.type, body.data)


def to_checkpoint_filter(body: wire.CheckpointListIn) -> CheckpointFilter:
    """Return the conditions of a list."""
    return CheckpointFilter(body.user_id, body.thread_id, body.ns, body.checkpoint_id, body.before, body.metadata)


def checkpoint_fields(row: Mapping[str, Any], thread: Mapping[str, Any]) -> dict[str, Any]:
    """Return a database row as the fields of CheckpointOut, with bytes. `thread` has user_id, thread_id and ns."""
    values = zip(row["channels"] or (), row["channel_types"] or (), row["channel_values"] or (), strict=True)
    columns = ("write_channels", "write_types", "write_values", "tasks", "paths", "idxs")
    writes = zip(*(row[column] or () for column in columns), strict=True)
    names = ("channel", "type", "data", "task_id", "task_path", "idx")
    return {
        "user_id": thread["user_id"],
        "thread_id": thread["thread_id"],
        "ns": thread["ns"],
        "checkpoint_id": row["checkpoint_id"],
        "parent_id": row["parent_id"],
        "type": row["type"],
        "data": row["data"],
        "values": [{"channel": channel, "type": kind, "data": data} for channel, kind, data in values],
        "writes": [dict(zip(names, write, strict=True)) for write in writes],
    }
