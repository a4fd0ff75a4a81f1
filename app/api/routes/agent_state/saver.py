"""/saver: what a checkpoint saver needs, such as LangGraph's. Each is one round trip; all may be sent again."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.api.deps import App, Reader, Writer
from app.api.errors import openapi_errors
from app.api.schemas.agent_state.checkpoints import (
    CheckpointIn,
    CheckpointPageOut,
    CopyIn,
    CountOut,
    FoundOut,
    ListIn,
    RunsIn,
    ThreadsIn,
    WantedIn,
    WritesIn,
    checkpoint_out,
)
from app.api.transport.msgpack import MsgpackRoute, render_answer
from app.domain.agent_state.checkpoints import Thread

router = APIRouter(prefix="/saver", tags=["saver"], route_class=MsgpackRoute)
_READ = openapi_errors(400, 401, 403, 413, 422, 503)
_WRITE = openapi_errors(400, 401, 403, 409, 413, 422, 503)
_STORED: dict[int | str, dict[str, Any]] = {204: {"description": "Stored"}, **_WRITE}


@router.post("/put", status_code=204, responses=_STORED)
async def put(app: App, scope: Writer, body: CheckpointIn) -> None:
    """Store a checkpoint, with the values of the channels that changed."""
    await app.checkpoints.put_checkpoint(scope, body.to_domain())


@router.post("/writes", status_code=204, responses=_STORED)
async def writes(app: App, scope: Writer, body: WritesIn) -> None:
    """Store what tasks wrote since a checkpoint, so that a step that fails is resumed, not begun again."""
    written = [write.to_domain() for write in body.writes]
    await app.checkpoints.put_writes(scope, body.thread, body.ns, body.checkpoint_id, written)


@router.post("/get", response_model=FoundOut, responses=_READ)
async def get(app: App, scope: Reader, body: WantedIn, request: Request) -> Response:
    """One checkpoint: the one that is named, or the newest of its namespace; null if there is none."""
    row = await app.checkpoints.get_checkpoint(scope, body.thread, body.ns, body.checkpoint_id)
    thread = {"user_id": body.user_id, "thread_id": body.thread_id, "ns": body.ns}
    return render_answer(request, {"checkpoint": None if row is None else checkpoint_out(row, thread)})


@router.post("/list", response_model=CheckpointPageOut, responses=_READ)
async def page(app: App, scope: Reader, body: ListIn, request: Request) -> Response:
    """Checkpoints, newest first. A page holds fewer than `limit` where they are large."""
    found = await app.checkpoints.list_checkpoints(scope, body.to_domain(), body.cursor, body.limit)
    items = [checkpoint_out(row, row) for row in found.items]
    return render_answer(request, {"items": items, "next_cursor": found.next_cursor})


@router.post("/delete", response_model=CountOut, responses=_READ)
async def delete(app: App, scope: Writer, body: ThreadsIn, request: Request) -> Response:
    """Delete threads with all that hangs on them; those that hold a state of `PUT /checkpoints` stay."""
    return render_answer(request, {"count": await app.checkpoints.delete_threads(scope, body.user_id, body.thread_ids)})


@router.post("/delete_runs", response_model=CountOut, responses=_READ)
async def delete_runs(app: App, scope: Writer, body: RunsIn, request: Request) -> Response:
    """Delete the checkpoints that runs made, with their writes."""
    return render_answer(request, {"count": await app.checkpoints.delete_runs(scope, body.user_id, body.run_ids)})


@router.post("/prune", response_model=CountOut, responses=_READ)
async def prune(app: App, scope: Writer, body: ThreadsIn, request: Request) -> Response:
    """Of each namespace of these threads leave the newest checkpoint, and what it cannot be read without."""
    return render_answer(request, {"count": await app.checkpoints.prune_threads(scope, body.user_id, body.thread_ids)})


@router.post("/copy", response_model=CountOut, responses=_WRITE)
async def copy(app: App, scope: Writer, body: CopyIn, request: Request) -> Response:
    """Copy a thread with its whole history to another of the same user; what both have is replaced."""
    source = Thread(body.user_id, body.source_thread_id)
    return render_answer(request, {"count": await app.checkpoints.copy_thread(scope, source, body.target_thread_id)})


def body_limits(max_bytes: int) -> dict[str, int]:
    """How much the bodies of these paths may hold: base64 of as much as a checkpoint, and its names."""
    return {f"{router.prefix}/{name}": 2 * max_bytes for name in ("put", "writes")}
