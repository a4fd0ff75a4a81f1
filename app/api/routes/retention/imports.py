"""Route of POST /import: it takes a user's export as NDJSON and answers one line for each line."""

import json
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import IO, Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from mnema_wire.fields import Identifier
from mnema_wire.portable import LEFT_OUT, PORTABLE, ImportedLine
from pydantic import ValidationError

from app.api.deps import Administrator, App
from app.api.errors import key_errors
from app.api.routes.memory.bulk import NDJSON, error_fields, first_problem, read_lines
from app.api.transport.complexity import MAX_STATE_VALUES, check_json
from app.api.transport.parameters import StrictRoute
from app.api.transport.spooling import spool_body
from app.domain.errors import BodyTooLarge, InvalidInput, MnemaError
from app.domain.retention.portable import PortableRecord
from app.usecases.offload import offload_if_large
from app.usecases.retention.imports import ImportLine, ImportResult

router = APIRouter(tags=["users"], route_class=StrictRoute)
PATH: Final = "/import"
_REQUEST = {
    "required": False,  # an empty body is valid and imports nothing
    "content": {
        NDJSON: {"schema": {"type": "string"}, "example": '{"kind": "user", "user_id": "maya", "created_at": null}\n'}
    },
}
_RESPONSE = {
    "description": "One JSON line for each input line, in order",
    "content": {
        NDJSON: {
            "schema": {"type": "string"},
            "example": '{"line": 1, "kind": "memory", "action": "imported", "id": "01999c1e-…"}'
            '\n{"line": 2, "error": {"code": "id_taken", "status": 409, "detail": "Another record has the id."}}\n',
        }
    },
}


class Ids(StrEnum):
    """The ids that the records get."""

    kept = "kept"
    renewed = "renewed"


@router.post(
    PATH,
    response_class=StreamingResponse,
    responses={200: _RESPONSE, **key_errors(413, 415)},
    openapi_extra={"requestBody": _REQUEST},
)
async def import_export(
    app: App,
    principal: Administrator,
    request: Request,
    user_id: Annotated[Identifier, Query(description="the user of the export")],
    ids: Annotated[Ids, Query(description="keep the ids of the records, or give them new ones")] = Ids.kept,
) -> StreamingResponse:
    """Import the export of a user. Needs scope `admin`. The body is what `GET /users/{user_id}/export` answers.

    Importing begins when the whole body has arrived. Each line is imported or refused on its own; a record that is
    there stays as it is, so a repeated import changes nothing. A line of a kind that is not imported, such as
    `receipt`, gets the action `left_out`. With `ids=renewed` records get new ids, the same ones each time.
    """
    settings = app.parts.settings
    spool = await spool_body(request, settings.max_bulk_bytes)
    # a checkpoint is base64 in its record, and a part of a file of 1 MiB too
    lines = _parse_lines(spool, 2 * max(1 << 20, settings.max_body_bytes, settings.max_checkpoint_bytes))
    results = app.retention.importing.import_lines(principal, user_id, lines, new_ids=ids is Ids.renewed)
    return StreamingResponse(_render_results(results, spool), media_type=NDJSON)


async def _render_results(results: AsyncIterator[ImportResult], spool: IO[bytes]) -> AsyncIterator[bytes]:
    with spool:
        async for result in results:
            yield json.dumps(_result_fields(result), ensure_ascii=False).encode() + b"\n"


async def _parse_lines(spool: IO[bytes], limit: int) -> AsyncIterator[ImportLine]:
    for number, raw in read_lines(spool, limit):
        try:
            if raw is None:
                raise BodyTooLarge(f"at most {limit} bytes a line")
            yield ImportLine(number, len(raw), await offload_if_large(len(raw), _parse_line, raw))
        except MnemaError as error:
            yield ImportLine(number, 0, error)


def _parse_line(raw: bytes) -> PortableRecord:
    check_json(raw, MAX_STATE_VALUES)
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the line is not JSON") from error
    if not isinstance(fields, dict):
        raise InvalidInput("the line is not a JSON object")
    kind = fields.pop("kind", None)
    if isinstance(kind, str) and kind in LEFT_OUT:
        return PortableRecord(kind, {}, is_left_out=True)
    model = PORTABLE.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise InvalidInput(f"kind: not a kind of an export; it is one of {', '.join((*PORTABLE, *LEFT_OUT))}")
    try:
        record = model.model_validate(fields)
    except ValidationError as error:
        raise first_problem(error) from error
    except RecursionError as error:
        raise InvalidInput("the line is nested too deeply") from error
    return PortableRecord(kind, record.model_dump(mode="json"), model.ids, model.refs)


def _result_fields(result: ImportResult) -> dict[str, Any]:
    if isinstance(result.outcome, MnemaError):
        return error_fields(result.number, result.outcome)
    answer: dict[str, Any] = {"line": result.number, "action": result.outcome}
    if (record := result.record) is not None:
        answer |= {"kind": record.kind, "id": record.own_id, "reason": LEFT_OUT.get(record.kind)}
    return ImportedLine.model_validate(answer).model_dump(exclude_none=True)
