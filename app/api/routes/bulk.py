"""POST /memory/bulk: NDJSON in, one result line an input line out."""

import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import IO, Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from app.api.deps import App, Writer
from app.api.errors import documented
from app.api.routes.memories import Trim
from app.api.schemas.bulk import BulkLineIn
from app.bootstrap import Application
from app.domain.errors import BodyTooLarge, InvalidInput, MnemaError
from app.domain.idempotency import IdempotencyKey
from app.domain.memory import NewMemory
from app.domain.scope import Scope
from app.usecases.memories.bulk import BulkLine, BulkResult

router = APIRouter(prefix="/memory", tags=["memory"])
NDJSON = "application/x-ndjson"
PATH = "/memory/bulk"
IN_MEMORY = 8 << 20
_REQUEST = {
    "required": True,
    "content": {
        NDJSON: {
            "schema": {"type": "string"},
            "example": '{"user_id": "maya", "category": "tasks", "text": "Maya books the venue."}\n',
        }
    },
}
_RESPONSE = {
    "description": "One JSON line an input line, in order",
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
    responses={200: _RESPONSE, **documented(401, 403, 413, 422, 503)},
    openapi_extra={"requestBody": _REQUEST},
)
async def bulk(
    app: App,
    scope: Writer,
    request: Request,
    trim: Trim = False,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=150)] = None,
) -> StreamingResponse:
    """Write many memories; each line is a body of `POST /memory`, optionally with an `idempotency_key` of its own.

    Writing begins when the whole body has arrived. A bad line is reported with its number and changes nothing for the
    others. With the header `Idempotency-Key` the whole request can be sent again: every line is done once.
    """
    spool = await _spooled(request, app.settings.max_bulk_bytes)
    lines = _lines(spool, app, trim, idempotency_key)
    return StreamingResponse(_results(app, scope, lines, trim, spool), media_type=NDJSON)


async def _spooled(request: Request, limit: int) -> IO[bytes]:
    """The whole body, on disk beyond 8 MiB: a client that only sends and never reads cannot jam the connection."""
    spool = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed when the answer is sent
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            spool.close()
            raise BodyTooLarge(f"at most {limit} bytes")
        spool.write(chunk)
    spool.seek(0)
    return spool


async def _results(
    app: Application, scope: Scope, lines: Iterator[BulkLine], trim: bool, spool: IO[bytes]
) -> AsyncIterator[bytes]:
    with spool:
        async for result in app.bulk.run(scope, lines, trim=trim):
            yield json.dumps(_line(result), ensure_ascii=False).encode() + b"\n"


def _lines(spool: IO[bytes], app: Application, trim: bool, request_key: str | None) -> Iterator[BulkLine]:
    for number, raw in enumerate(spool, 1):
        if not raw.strip():
            continue
        try:
            if len(raw) > app.settings.max_body_bytes:
                raise BodyTooLarge(f"at most {app.settings.max_body_bytes} bytes a line")
            draft, own_key = _parsed(raw, app.policies.write.default_importance)
        except MnemaError as error:
            yield BulkLine(number, error)
            continue
        name = own_key or (f"{request_key}:{number}" if request_key else None)
        digest = hashlib.sha256(f"{trim}:".encode() + raw.strip()).digest()
        yield BulkLine(number, draft, IdempotencyKey(f"POST {PATH}", name, digest) if name else None)


def _parsed(raw: bytes, default_importance: int) -> tuple[NewMemory, str | None]:
    try:
        body = BulkLineIn.model_validate(json.loads(raw))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"{where}: {first['msg']}" if where else first["msg"]) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the line is not JSON") from error
    return body.to_domain(default_importance), body.idempotency_key


def _line(result: BulkResult) -> dict[str, Any]:
    outcome = result.outcome
    if isinstance(outcome, MnemaError):
        error = {"code": outcome.code, "status": outcome.status, "detail": outcome.detail}
        return {"line": result.number, "error": error}
    values = {name: getattr(outcome, name) for name in outcome.__dataclass_fields__}
    written = {n: str(v) if n in ("id", "matched_id") else v for n, v in values.items() if v is not None}
    return {"line": result.number, **written}
