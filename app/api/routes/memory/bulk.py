"""Route of POST /memory/bulk: it takes NDJSON and answers one result line for each input line."""

import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import IO, Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse
from mnema_wire.memory import MemoryLine, Written
from pydantic import ValidationError

from app.api.deps import App, Writer
from app.api.errors import key_errors
from app.api.routes.memory.memories import Trim
from app.api.schemas.memory.memories import to_new_memory
from app.api.transport.client_name import ClientHeader
from app.api.transport.complexity import check_json
from app.api.transport.parameters import StrictRoute
from app.api.transport.spooling import spool_body
from app.config.loader import WritePolicy
from app.domain.errors import BodyTooLarge, InvalidInput, LimitReached, MnemaError
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import NewMemory
from app.usecases.memory.bulk import BulkLine, BulkResult

router = APIRouter(prefix="/memory", tags=["memory"], route_class=StrictRoute)
NDJSON = "application/x-ndjson"
PATH = "/memory/bulk"
_REQUEST = {
    "required": False,  # an empty body is valid and writes nothing
    "content": {
        NDJSON: {
            "schema": {"type": "string"},
            "example": '{"user_id": "maya", "category": "tasks", "text": "Maya books the venue."}\n',
        }
    },
}
_RESPONSE = {
    "description": "One JSON line for each input line, in order",
    "content": {
        NDJSON: {
            "schema": {"type": "string"},
            "example": '{"line": 1, "id": "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11", "action": "created"}\n'
            '{"line": 2, "error": {"code": "empty_text", "status": 422, "detail": "The text is empty."}}\n',
        }
    },
}


@router.post(
    "/bulk",
    response_class=StreamingResponse,
    responses={200: _RESPONSE, **key_errors(413, 415)},
    openapi_extra={"requestBody": _REQUEST},
)
async def bulk(
    app: App,
    principal: Writer,
    request: Request,
    trim: Trim = False,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=150)] = None,
    client: ClientHeader = None,
) -> StreamingResponse:
    """Write many memories. Each line is a body of `POST /memory`, optionally with its own `idempotency_key`.

    Writing begins when the whole body has arrived. A bad line is reported with its number and does not affect the other
    lines. A line beyond the quota of memories gets 429. With the header `Idempotency-Key` you can send the whole
    request again: each line is written once. If the API key is revoked meanwhile, the remaining lines are not written:
    they get 401, or the answer breaks off.
    """
    spool = await spool_body(request, app.parts.settings.max_bulk_bytes)
    defaults = app.parts.policies.of(principal).write
    lines = _parse_lines(spool, app.parts.settings.max_body_bytes, defaults, trim, idempotency_key, client)
    results = app.memory.bulk.write_lines(principal.writing_through(client), lines, trim=trim)
    return StreamingResponse(_render_results(results, spool), media_type=NDJSON)


async def _render_results(results: AsyncIterator[BulkResult], spool: IO[bytes]) -> AsyncIterator[bytes]:
    with spool:
        async for result in results:
            yield json.dumps(_result_fields(result), ensure_ascii=False).encode() + b"\n"


def _parse_lines(
    spool: IO[bytes], limit: int, defaults: WritePolicy, trim: bool, request_key: str | None, client: str | None
) -> Iterator[BulkLine]:
    for number, raw in read_lines(spool, limit):
        try:
            if raw is None:
                raise BodyTooLarge(f"at most {limit} bytes a line")
            draft, own_key = _parse_line(raw, defaults, client)
        except MnemaError as error:
            yield BulkLine(number, error)
            continue
        # the prefixes keep a line's own key from ever equalling one that was derived from the request's key
        name = f"line:{own_key}" if own_key else f"request:{request_key}:{number}" if request_key else None
        digest = hashlib.sha256(f"{trim}:".encode() + raw.strip()).digest()
        yield BulkLine(number, draft, IdempotencyKey(f"POST {PATH}", name, digest) if name else None)


def read_lines(spool: IO[bytes], limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield the line number and bytes of each line that is not blank, with None for a line beyond `limit` bytes.

    A line beyond the limit is never in memory as a whole.
    """
    for number in count(1):
        raw = spool.readline(limit + 1)
        if not raw:
            return
        if len(raw) <= limit:
            if raw.strip():
                yield number, raw
            continue
        while raw and not raw.endswith(b"\n"):
            raw = spool.readline(limit)
        yield number, None


def _parse_line(raw: bytes, defaults: WritePolicy, client: str | None) -> tuple[NewMemory, str | None]:
    check_json(raw)
    try:
        body = MemoryLine.model_validate(json.loads(raw))
    except ValidationError as error:
        raise first_problem(error) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the line is not JSON") from error
    return to_new_memory(body, defaults, client), body.idempotency_key


def first_problem(error: ValidationError) -> InvalidInput:
    """Return the error that a line answers if its fields are not valid."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    return InvalidInput(f"{place}: {problem['msg']}" if place else problem["msg"])


def error_fields(number: int, outcome: MnemaError) -> dict[str, Any]:
    """Return the answer to a line that is refused."""
    error = {"code": outcome.code, "status": outcome.status, "detail": outcome.detail}
    if isinstance(outcome, LimitReached):
        error["retry_after"] = outcome.extra["retry_after"]
    return {"line": number, "error": error}


def _result_fields(result: BulkResult) -> dict[str, Any]:
    outcome = result.outcome
    if isinstance(outcome, MnemaError):
        return error_fields(result.number, outcome)
    written = Written.model_validate(outcome, from_attributes=True)
    return {"line": result.number, **written.model_dump(mode="json", exclude_none=True)}
