"""The route of /changes: pages and a stream of the changes of memories."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse
from mnema_wire.fields import Identifier, WhereText

from app.api.deps import App, Reader, renew_principal
from app.api.errors import key_errors
from app.api.routes.memory.bulk import NDJSON
from app.api.schemas.memory.change_feed import encode_changes, end_body
from app.api.transport.change_stream import ChangeStream
from app.api.transport.events import EVENTS
from app.api.transport.parameters import StrictRoute
from app.domain.epochs import ChangePosition
from app.domain.memory.change_feed import ChangeFilter, ChangePage
from app.domain.where.parsing import read_where
from app.domain.where.tree import FIELDS

router = APIRouter(prefix="/changes", tags=["changes"], route_class=StrictRoute)
CURSOR_CHARS: Final = 500
STREAM_PAGE: Final = 100
"""Records that a stream reads at once."""
_ITEMS: Final[dict[str, Any]] = {
    "schema": {"type": "string"},
    "x-item-schema": {"$ref": "#/components/schemas/ChangeEvent"},
}
_RESPONSE: Final[dict[str, Any]] = {
    "description": "The changes, oldest first",
    "content": {
        NDJSON: {**_ITEMS, "example": '{"event": "ADD", "id": "…"}\n{"next_cursor": "…"}\n'},
        EVENTS: {**_ITEMS, "example": 'id: …\nevent: ADD\ndata: {"event": "ADD", "id": "…"}\n\n'},
    },
}


@router.get("", response_class=Response, responses={200: _RESPONSE, **key_errors(410)})
async def follow(
    request: Request,
    app: App,
    principal: Reader,
    user_id: Annotated[Identifier | None, Query(description="only the changes of this user's memories")] = None,
    memory: Annotated[bool, Query(description="true: each event has the memory as it is now")] = False,
    limit: Annotated[int, Query(ge=1, le=1000, description="records of the tenant that a page reads")] = 1000,
    after: Annotated[
        str | None, Query(max_length=CURSOR_CHARS, description="the id of the last event; `start`: before the first")
    ] = None,
    where: Annotated[WhereText | None, Query()] = None,
    last_event_id: Annotated[str | None, Header(max_length=CURSOR_CHARS, description="goes before `after`")] = None,
) -> Response:
    """List or follow the changes of memories, in the order of transactions. None is skipped.

    The answer is a page of JSON lines, the last of which has `next_cursor`. With `Accept: text/event-stream` it is an
    endless stream of events, with an event `heartbeat` every 15 seconds if nothing changes. Resume it with the id of
    the last event in `Last-Event-ID`. Without a cursor both begin now: a page has no events then.

    A key that is bound to agents hears of the memories in its categories. After 410 begin again: call without a cursor
    to get a new one, list all memories, then ask for the changes.
    """
    wanted = ChangeFilter(user_id, read_where(where, FIELDS))
    cursor = last_event_id or after
    if EVENTS not in request.headers.get("accept", ""):
        page = await app.memory.changes.read_page(principal, wanted, cursor, limit, with_memories=memory)
        return StreamingResponse(_page_lines(page), media_type=NDJSON)
    feed = app.memory.changes

    async def read_news(after: ChangePosition) -> ChangePage:
        renewed = await renew_principal(app, request)
        return await feed.read_news(renewed, wanted, after, min(limit, STREAM_PAGE), with_memories=memory)

    first = await feed.read_page(principal, wanted, cursor, min(limit, STREAM_PAGE), with_memories=memory)
    return ChangeStream(first, read_news, feed.subscribe(principal))


async def _page_lines(page: ChangePage) -> AsyncIterator[bytes]:
    for change in encode_changes(page):
        yield change.text + b"\n"
    yield end_body(page).model_dump_json().encode() + b"\n"
