"""Routes of /saver: the operations of a checkpoint saver such as LangGraph's. Each is idempotent."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from mnema_wire import checkpoints as wire

from app.api.deps import App, Reader, Writer
from app.api.errors import body_errors
from app.api.transport.msgpack import MsgpackRoute, render_answer
from app.domain.agent_state.checkpoints import ChannelValue, ChannelWrite, Checkpoint, CheckpointFilter, Thread

router = APIRouter(prefix="/saver", tags=["saver"], route_class=MsgpackRoute)
_READ = body_errors()
_WRITE = body_errors(409)
_STORED: dict[int | str, dict[str, Any]] = {204: {"description": "Stored"}, **_WRITE}


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


@router.post("/put", status_code=204, responses=_STORED)
async def put(app: App, principal: Writer, body: wire.CheckpointIn) -> None:
    """Store a checkpoint and the values of the channels that changed."""
    await app.agent_state.checkpoints.put_checkpoint(principal, to_checkpoint(body))


@router.post("/writes", status_code=204, responses=_STORED)
async def writes(app: App, principal: Writer, body: wire.WritesIn) -> None:
    """Store the values that tasks wrote since a checkpoint. A failed step then resumes instead of starting again."""
    channel_writes = list(map(to_channel_write, body.writes))
    await app.agent_state.checkpoints.put_writes(
        principal, thread_of(body), body.ns, body.checkpoint_id, channel_writes
    )


@router.post("/get", response_model=wire.FoundCheckpointOut, responses=_READ)
async def get(app: App, principal: Reader, body: wire.WantedIn, request: Request) -> Response:
    """Return the named checkpoint, or the newest of the namespace; null if there is none."""
    row = await app.agent_state.checkpoints.get_checkpoint(principal, thread_of(body), body.ns, body.checkpoint_id)
    thread = {"user_id": body.user_id, "thread_id": body.thread_id, "ns": body.ns}
    return render_answer(request, {"checkpoint": None if row is None else checkpoint_fields(row, thread)})


@router.post("/list", response_model=wire.CheckpointPageOut, responses=_READ)
async def page(app: App, principal: Reader, body: wire.CheckpointListIn, request: Request) -> Response:
    """List checkpoints, newest first. A page has fewer than `limit` items if the checkpoints are large."""
    conditions = to_checkpoint_filter(body)
    rows = await app.agent_state.checkpoints.list_checkpoints(principal, conditions, body.cursor, body.limit)
    items = [checkpoint_fields(row, row) for row in rows.items]
    return render_answer(request, {"items": items, "next_cursor": rows.next_cursor})


@router.post("/delete", response_model=wire.CheckpointCountOut, responses=_READ)
async def delete(app: App, principal: Writer, body: wire.ThreadsIn, request: Request) -> Response:
    """Delete threads with all their checkpoints and writes. Threads with a state of `PUT /checkpoints` stay."""
    return render_answer(
        request, {"count": await app.agent_state.checkpoints.delete_threads(principal, body.user_id, body.thread_ids)}
    )


@router.post("/delete_runs", response_model=wire.CheckpointCountOut, responses=_READ)
async def delete_runs(app: App, principal: Writer, body: wire.RunsIn, request: Request) -> Response:
    """Delete the checkpoints of runs, with their writes."""
    return render_answer(
        request, {"count": await app.agent_state.checkpoints.delete_runs(principal, body.user_id, body.run_ids)}
    )


@router.post("/prune", response_model=wire.CheckpointCountOut, responses=_READ)
async def prune(app: App, principal: Writer, body: wire.ThreadsIn, request: Request) -> Response:
    """Keep only the newest checkpoint of each namespace of these threads, with the values that it refers to."""
    return render_answer(
        request, {"count": await app.agent_state.checkpoints.prune_threads(principal, body.user_id, body.thread_ids)}
    )


@router.post("/copy", response_model=wire.CheckpointCountOut, responses=_WRITE)
async def copy(app: App, principal: Writer, body: wire.CopyIn, request: Request) -> Response:
    """Copy a thread with its whole history to another thread of the same user.

    A checkpoint that both threads have is replaced.
    """
    source = Thread(body.user_id, body.source_thread_id)
    return render_answer(
        request, {"count": await app.agent_state.checkpoints.copy_thread(principal, source, body.target_thread_id)}
    )


def body_limits(max_bytes: int) -> dict[str, int]:
    """Return the body limits in bytes by path: twice `max_bytes`, room for a checkpoint in base64 and its names."""
    return {f"{router.prefix}/{name}": 2 * max_bytes for name in ("put", "writes")}
