"""Routes of /checkpoints: the latest state of a user's thread (`docs/contract.md`, Agent state)."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from mnema_wire.checkpoints import StateOut
from mnema_wire.fields import Identifier

from app.api import links
from app.api.deps import App, Reader, Writer
from app.api.errors import body_errors, key_errors
from app.api.routes.memory.memories import IfMatch, parse_version
from app.api.transport.parameters import StrictRoute
from app.domain.agent_state.checkpoints import Thread
from app.domain.errors import UnsupportedMediaType

router = APIRouter(prefix="/checkpoints", tags=["checkpoints"], route_class=StrictRoute)
ThreadId = Annotated[Identifier, Path()]
UserId = Annotated[
    Identifier, Query(description="threads of different users are different, even with equal thread ids")
]
JSON = "application/json"
BINARY = "application/octet-stream"
_EXAMPLE = {
    "graph_state": {"next": "planner"},
    "memory_context": {"revision": 41},
    "conversation_history": [{"role": "user", "content": "Can we move the demo to Friday?"}],
    "agent_states": {"planner": {"waiting": True}},
}
_STATE = {"type": "object", "description": "graph state, memory context, conversation history, agent states, …"}
_CONTENT = {
    JSON: {"schema": {**_STATE, "examples": [_EXAMPLE]}},
    BINARY: {"schema": {"type": "string", "format": "binary"}},
}
_ETAG = {"ETag": {"required": True, "description": "the version", "schema": {"type": "string"}}}
_BODY = {"requestBody": {"required": True, "content": _CONTENT}}


@router.put(
    "/{thread_id:path}",
    openapi_extra=_BODY,
    responses={200: {"headers": _ETAG, "links": links.STATE}, **body_errors(409, 412)},
)
async def put(
    app: App,
    principal: Writer,
    thread_id: ThreadId,
    user_id: UserId,
    request: Request,
    response: Response,
    if_match: IfMatch = None,
) -> StateOut:
    """Replace the state of a thread: a JSON object, or bytes as `application/octet-stream`, of at most 5 MB.

    With `If-Match` the state is stored only if it still has that version; `"0"` means that there is none yet. JSON
    with the escape `\\u0000` is refused, because PostgreSQL cannot store it. 409: a checkpoint saver keeps this thread.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind not in _CONTENT:
        raise UnsupportedMediaType(f"Send the state as `Content-Type: {JSON}` or `{BINARY}`.")
    raw = await request.body()
    thread = Thread(user_id, thread_id)
    version = parse_version(if_match)
    state = await app.agent_state.checkpoints.put_state(principal, thread, raw, binary=kind == BINARY, version=version)
    response.headers["ETag"] = f'"{state.version}"'
    times = {"created_at": state.created_at, "updated_at": state.updated_at}
    return StateOut(user_id=user_id, thread_id=thread_id, version=state.version, **times)


@router.get(
    "/{thread_id:path}",
    response_class=Response,
    responses={
        200: {"description": "The state as it was stored", "headers": _ETAG, "content": _CONTENT},
        **key_errors(404),
    },
)
async def get(app: App, principal: Reader, thread_id: ThreadId, user_id: UserId) -> Response:
    """Return the state as it was stored, with its version as ETag.

    If a checkpoint saver keeps the thread, the answer names the newest checkpoint instead.
    """
    state = await app.agent_state.checkpoints.get_state(principal, Thread(user_id, thread_id))
    headers = {"ETag": f'"{state.version}"'}
    if state.json is None:
        return Response(state.binary, media_type=BINARY, headers=headers)
    return Response(state.json, media_type=JSON, headers=headers)


@router.delete(
    "/{thread_id:path}", status_code=204, responses={204: {"description": "Deleted"}, **key_errors(404, 412)}
)
async def delete(app: App, principal: Writer, thread_id: ThreadId, user_id: UserId, if_match: IfMatch = None) -> None:
    """Delete everything stored for the thread, including the checkpoints of a checkpoint saver."""
    await app.agent_state.checkpoints.delete_state(principal, Thread(user_id, thread_id), parse_version(if_match))


def body_limits(max_bytes: int) -> dict[str, int]:
    """Return the body limits in bytes by path prefix: `max_bytes`, the limit of one state."""
    return {f"{router.prefix}/": max_bytes}
