"""Routes of /saver: the operations of a checkpoint saver such as LangGraph's. Each is idempotent."""

from typing import Any

from fastapi import APIRouter, Request, Response
from mnema_wire.checkpoints import (
    CheckpointCountOut,
    CheckpointIn,
    CheckpointListIn,
    CheckpointPageOut,
    CopyIn,
    FoundCheckpointOut,
    RunsIn,
    ThreadsIn,
    WantedIn,
    WritesIn,
)

from app.api.deps import App, Reader, Writer
from app.api.errors import openapi_errors
from app.api.schemas.agent_state.checkpoints import (
    checkpoint_fields,
    thread_of,
    to_channel_write,
    to_checkpoint,
    to_checkpoint_filter,
)
from app.api.transport.msgpack import MsgpackRoute, render_answer
from app.domain.agent_state.checkpoints import Thread

router = APIRouter(prefix="/saver", tags=["saver"], route_class=MsgpackRoute)
_READ = openapi_errors(400, 401, 403, 413, 422, 503)
_WRITE = openapi_errors(400, 401, 403, 409, 413, 422, 503)
_STORED: dict[int | str, dict[str, Any]] = {204: {"description": "Stored"}, **_WRITE}


@router.post("/put", status_code=204, responses=_STORED)
async def put(app: App, principal: Writer, body: CheckpointIn) -> None:
    """Store a checkpoint and the values of the channels that changed."""
    await app.agent_state.checkpoints.put_checkpoint(principal, to_checkpoint(body))


@router.post("/writes", status_code=204, responses=_STORED)
async def writes(app: App, principal: Writer, body: WritesIn) -> None:
    """Store the values that tasks wrote since a checkpoint. A failed step then resumes instead of starting again."""
    channel_writes = list(map(to_channel_write, body.writes))
    await app.agent_state.checkpoints.put_writes(
        principal, thread_of(body), body.ns, body.checkpoint_id, channel_writes
    )


@router.post("/get", response_model=FoundCheckpointOut, responses=_READ)
async def get(app: App, principal: Reader, body: WantedIn, request: Request) -> Response:
    """Return the named checkpoint, or the newest of the namespace; null if there is none."""
    row = await app.agent_state.checkpoints.get_checkpoint(principal, thread_of(body), body.ns, body.checkpoint_id)
    thread = {"user_id": body.user_id, "thread_id": body.thread_id, "ns": body.ns}
    return render_answer(request, {"checkpoint": None if row is None else checkpoint_fields(row, thread)})


@router.post("/list", response_model=CheckpointPageOut, responses=_READ)
async def page(app: App, principal: Reader, body: CheckpointListIn, request: Request) -> Response:
    """List checkpoints, newest first. A page has fewer than `limit` items if the checkpoints are large."""
    conditions = to_checkpoint_filter(body)
    rows = await app.agent_state.checkpoints.list_checkpoints(principal, conditions, body.cursor, body.limit)
    items = [checkpoint_fields(row, row) for row in rows.items]
    return render_answer(request, {"items": items, "next_cursor": rows.next_cursor})


@router.post("/delete", response_model=CheckpointCountOut, responses=_READ)
async def delete(app: App, principal: Writer, body: ThreadsIn, request: Request) -> Response:
    """Delete threads with all their checkpoints and writes. Threads with a state of `PUT /checkpoints` stay."""
    return render_answer(
        request, {"count": await app.agent_state.checkpoints.delete_threads(principal, body.user_id, body.thread_ids)}
    )


@router.post("/delete_runs", response_model=CheckpointCountOut, responses=_READ)
async def delete_runs(app: App, principal: Writer, body: RunsIn, request: Request) -> Response:
    """Delete the checkpoints of runs, with their writes."""
    return render_answer(
        request, {"count": await app.agent_state.checkpoints.delete_runs(principal, body.user_id, body.run_ids)}
    )


@router.post("/prune", response_model=CheckpointCountOut, responses=_READ)
async def prune(app: App, principal: Writer, body: ThreadsIn, request: Request) -> Response:
    """Keep only the newest checkpoint of each namespace of these threads, with the values that it refers to."""
    return render_answer(
        request, {"count": await app.agent_state.checkpoints.prune_threads(principal, body.user_id, body.thread_ids)}
    )


@router.post("/copy", response_model=CheckpointCountOut, responses=_WRITE)
async def copy(app: App, principal: Writer, body: CopyIn, request: Request) -> Response:
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
