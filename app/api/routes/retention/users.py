"""Routes of /users: export everything stored about a user, and erase it."""

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse
from mnema_wire.fields import Identifier, Moment, WhereText
from mnema_wire.memory import Receipt

from app.api import links
from app.api.deps import Administrator, App, Reader
from app.api.errors import IncompleteStream, key_errors
from app.api.routes.memory.bulk import NDJSON
from app.api.transport.parameters import StrictRoute
from app.domain.errors import MnemaError
from app.domain.filters import Filters
from app.domain.memory.moments import Moments
from app.domain.where.parsing import read_where
from app.domain.where.tree import FIELDS

router = APIRouter(prefix="/users", tags=["users"], route_class=StrictRoute)
UserId = Annotated[Identifier, Path()]
_RESPONSE = {
    "description": "One JSON line for each record, with its `kind` and its fields",
    "content": {NDJSON: {"schema": {"type": "string"}, "example": '{"kind": "memory", "text": "…"}\n'}},
    "links": links.EXPORT,
}


@router.get("/{user_id:path}/export", response_class=StreamingResponse, responses={200: _RESPONSE, **key_errors(404)})
async def export(
    app: App,
    principal: Reader,
    user_id: UserId,
    as_of: Annotated[Moment | None, Query(description="the memories as Mnema knew them at this time")] = None,
    valid_at: Annotated[Moment | None, Query(description="the memories that were so at this time")] = None,
    where: Annotated[WhereText | None, Query()] = None,
) -> StreamingResponse:
    """Export everything stored about a user, as a stream.

    Kinds: `user`; `memory` (in every state), `history`, `change` (entries of deltas), `relation`, `event`;
    `reflection` (how far a chat model has read), `compared` (pairs that consolidation judged), `cursor`, `job`,
    `retry_key`; `context_value`, `context_patch`, `context_history`; `checkpoint`, `checkpoint_lineage`,
    `checkpoint_value`, `checkpoint_write`; `receipt` (of what agents were told), `usage`; `webhook`,
    `webhook_delivery`; `item` of the store;
    `artifact` of turn memory; `source`, `file`, `chunk_place` (of memories of type chunk), `index_job`,
    `file_content` (1 MiB of an uploaded file in base64).

    A key that is bound to agents gets only the records in its categories. If the key is revoked or the database fails
    during the export, the connection breaks, so the client sees that the export is incomplete.

    With `as_of`, `valid_at` or `where` it has the kinds `user` and `memory` alone: the memories at that time that
    match, without `valid_at` in every state.
    """
    filters = Filters(where=read_where(where, FIELDS))
    records = await app.retention.export.export_records(principal, user_id, Moments(as_of, valid_at), filters)
    return StreamingResponse(_stream_records(records), media_type=NDJSON)


@router.post("/{user_id:path}/erase", responses={200: {"links": links.ERASED}, **key_errors(404)})
async def erase(app: App, principal: Administrator, user_id: UserId, response: Response) -> Receipt:
    """Erase a user for good. Needs scope `admin`.

    Rows are deleted. Entries of history and delta stay without text. The erased texts are refused if they are sent
    again. The header `Mnema-Unreached` names clusters that may still have the texts: they hold a copy from before the
    tenant moved, or do not answer. An operator deletes the copies.
    """
    receipt = await app.retention.erase.erase_user(principal, user_id)
    if receipt.unreached:
        response.headers["Mnema-Unreached"] = ", ".join(receipt.unreached)
    return Receipt.model_validate(receipt)


def _record_line(record: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(record, default=str, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a number of more than 64 bits
        return json.dumps(record, default=_json_text, ensure_ascii=False).encode() + b"\n"


def _json_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


async def _stream_records(records: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    try:
        async for record in records:
            yield _record_line(record)
    except MnemaError as error:
        raise IncompleteStream(error.code) from error
