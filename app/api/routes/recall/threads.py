"""Routes of /threads: the delta of a thread and its turns."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from mnema_wire import recall as wire
from mnema_wire.fields import Identifier, Limit

from app.api import links
from app.api.deps import App, Reader
from app.api.errors import key_errors
from app.api.transport.parameters import StrictRoute
from app.domain.memory.memory import Memory

router = APIRouter(prefix="/threads", tags=["threads"], route_class=StrictRoute)


def thread_turn_body(memory: Memory) -> wire.ThreadTurn:
    """Return the body for a memory of type turn."""
    return wire.ThreadTurn(
        id=memory.id,
        user_id=memory.user_id,
        role=memory.role,
        content=memory.text,
        actor_id=memory.actor_id,
        seq=memory.seq,
        metadata=dict(memory.metadata),
        created_at=memory.created_at,
    )


@router.get("/{thread_id:path}/delta", responses={200: {"links": links.DELTA}, **key_errors()})
async def delta(
    app: App,
    principal: Reader,
    thread_id: Annotated[Identifier, Path()],
    since_rev: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    agent: Annotated[Identifier | None, Query()] = None,
    user_id: Annotated[Identifier | None, Query(description="only changes of this user's memories")] = None,
) -> wire.ThreadDelta:
    """Return the net changes in a thread since a revision, or since the agent's last header with this key.

    This moves no cursor.
    """
    changes = await app.recall.delta.read_delta(principal, thread_id, since_rev, agent, user_id)
    return wire.ThreadDelta(
        since_rev=changes.since_rev,
        rev=changes.rev,
        more=changes.more,
        truncated=changes.truncated,
        header=changes.header.text.text if changes.header else "",
    )


@router.get("/{thread_id:path}/turns", responses={200: {"links": links.THREAD_TURNS}, **key_errors()})
async def turns(
    app: App,
    principal: Reader,
    thread_id: Annotated[Identifier, Path()],
    user_id: Annotated[Identifier | None, Query(description="only turns of this user; absent: of all users")] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> wire.ThreadTurns:
    """Replay a thread: its turns in the order of `seq`, then those without one by time."""
    page = await app.recall.threads.list_turns(principal, thread_id, user_id, cursor, limit)
    return wire.ThreadTurns(items=[thread_turn_body(m) for m in page.items], next_cursor=page.next_cursor)
