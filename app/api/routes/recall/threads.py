"""Routes of /threads: the delta of a thread and its turns."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from mnema_wire.fields import Identifier, Limit
from mnema_wire.recall import ThreadDelta, ThreadTurns

from app.api import links
from app.api.deps import App, Reader
from app.api.errors import openapi_errors
from app.api.schemas.recall.threads import thread_turn_body
from app.api.transport.parameters import StrictRoute

router = APIRouter(prefix="/threads", tags=["threads"], route_class=StrictRoute)


@router.get(
    "/{thread_id:path}/delta",
    response_model=ThreadDelta,
    responses={200: {"links": links.DELTA}, **openapi_errors(401, 403, 422, 503)},
)
async def delta(
    app: App,
    principal: Reader,
    thread_id: Annotated[Identifier, Path()],
    since_rev: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    agent: Annotated[Identifier | None, Query()] = None,
    user_id: Annotated[Identifier | None, Query(description="only changes of this user's memories")] = None,
) -> ThreadDelta:
    """Return the net changes in a thread since a revision, or since the agent's last header with this key.

    This moves no cursor.
    """
    changes = await app.recall.delta.read_delta(principal, thread_id, since_rev, agent, user_id)
    return ThreadDelta(
        since_rev=changes.since_rev,
        rev=changes.rev,
        more=changes.more,
        truncated=changes.truncated,
        header=changes.header.text.text if changes.header else "",
    )


@router.get(
    "/{thread_id:path}/turns",
    response_model=ThreadTurns,
    responses={200: {"links": links.THREAD_TURNS}, **openapi_errors(401, 403, 422, 503)},
)
async def turns(
    app: App,
    principal: Reader,
    thread_id: Annotated[Identifier, Path()],
    user_id: Annotated[Identifier | None, Query(description="only turns of this user; absent: of all users")] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> ThreadTurns:
    """Replay a thread: its turns in the order of `seq`, then those without one by time."""
    page = await app.recall.threads.list_turns(principal, thread_id, user_id, cursor, limit)
    return ThreadTurns(items=[thread_turn_body(m) for m in page.items], next_cursor=page.next_cursor)
