"""/memory: write, read, change, audit."""

import re
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query, Response

from app.api import links
from app.api.deps import App, Reader, Writer
from app.api.errors import openapi_errors
from app.api.schemas.fields import Identifier, Limit, Moment, StateName, TypeName
from app.api.schemas.memory.memories import (
    HistoryOut,
    HistoryPageOut,
    MemoryIn,
    MemoryOut,
    MemoryPageOut,
    MemoryPatchIn,
    PinIn,
    WrittenOut,
)
from app.api.schemas.recall.query import AnswerOut, QueryIn
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.domain.errors import InvalidInput, ScopeRequired
from app.domain.filters import Filters

router = APIRouter(prefix="/memory", tags=["memory"], route_class=StrictRoute)
Trim = Annotated[bool, Query(description="shorten a too long text at a sentence or word end instead of refusing it")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the page before")]
VERSION = r'^(\*|(W/)?"?([0-9]{1,9})"?)$'
IfMatch = Annotated[str | None, Header(description='the version, e.g. `"3"`', json_schema_extra={"pattern": VERSION})]
ETAG_RESPONSE: dict[str, Any] = {
    "headers": {"ETag": {"required": True, "description": "the version", "schema": {"type": "string"}}},
    "links": links.MEMORY,
}


@router.post(
    "",
    status_code=201,
    response_model=WrittenOut,
    responses={201: {"links": links.WRITTEN}, **openapi_errors(400, 401, 403, 409, 413, 422, 503)},
)
async def remember(
    app: App,
    scope: Writer,
    body: MemoryIn,
    trim: Trim = False,
    idempotency_key: IdempotencyHeader = None,
) -> WrittenOut:
    """Write a memory.

    A semantic text that says what a stored memory of the same user and category says updates that one. Retry with the
    same `Idempotency-Key` and body to get the first answer again.
    """
    key = retry_key("POST /memory", idempotency_key, lambda: f"{trim}:{body.model_dump_json()}")
    draft = body.to_domain(app.policies.write.default_importance)
    written = await app.write.write_memory(scope, draft, trim=trim, key=key)
    return WrittenOut.model_validate(written, from_attributes=True)


@router.get(
    "", response_model=MemoryPageOut, responses={200: {"links": links.MEMORIES}, **openapi_errors(401, 403, 422, 503)}
)
async def page(
    app: App,
    scope: Reader,
    user_id: Annotated[Identifier | None, Query()] = None,
    category: Annotated[Identifier | None, Query()] = None,
    type: Annotated[TypeName | None, Query()] = None,
    state: Annotated[StateName, Query()] = "active",
    thread_id: Annotated[Identifier | None, Query()] = None,
    agent_id: Annotated[Identifier | None, Query()] = None,
    run_id: Annotated[Identifier | None, Query()] = None,
    actor_id: Annotated[Identifier | None, Query()] = None,
    role: Annotated[Identifier | None, Query()] = None,
    tag: Annotated[Identifier | None, Query()] = None,
    pinned: Annotated[bool | None, Query()] = None,
    importance_min: Annotated[int | None, Query(ge=1, le=5)] = None,
    importance_max: Annotated[int | None, Query(ge=1, le=5)] = None,
    updated_after: Annotated[Moment | None, Query()] = None,
    updated_before: Annotated[Moment | None, Query()] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Cursor = None,
) -> MemoryPageOut:
    """List memories, newest first."""
    filters = Filters(
        user_id=user_id,
        agent_id=agent_id,
        run_id=run_id,
        actor_id=actor_id,
        role=role,
        category=category,
        pinned=pinned,
        importance_min=importance_min,
        importance_max=importance_max,
        updated_after=updated_after,
        updated_before=updated_before,
        thread_id=thread_id,
        type=type,
        tag=tag,
    )
    found = await app.read.list_memories(scope, filters, state, cursor, limit)
    return MemoryPageOut(items=[MemoryOut.from_memory(m) for m in found.items], next_cursor=found.next_cursor)


@router.post(
    "/query",
    response_model=AnswerOut,
    response_model_exclude_none=True,
    responses={200: {"links": links.ANSWER}, **openapi_errors(400, 401, 403, 413, 422, 503)},
    operation_id="memory_query",
)
async def query(app: App, scope: Reader, body: QueryIn) -> AnswerOut:
    """`memory.query`: what an agent should know for a question, within its allowlist and token budget."""
    answer = await app.query.answer_query(scope, body.to_domain())
    return AnswerOut.from_answer(answer, full=body.returns == "full", explain=body.explain)


@router.get(
    "/{memory_id:uuid}",
    response_model=MemoryOut,
    responses={200: ETAG_RESPONSE, **openapi_errors(401, 403, 404, 422, 503)},
)
async def get(app: App, scope: Reader, memory_id: UUID, response: Response) -> MemoryOut:
    """One memory, in whatever state; its version is the ETag."""
    return _with_etag(response, MemoryOut.from_memory(await app.read.get_memory(scope, memory_id)))


@router.patch(
    "/{memory_id:uuid}",
    response_model=MemoryOut,
    responses={200: ETAG_RESPONSE, **openapi_errors(400, 401, 403, 404, 409, 412, 413, 422, 503)},
)
async def patch(
    app: App,
    scope: Writer,
    memory_id: UUID,
    body: MemoryPatchIn,
    response: Response,
    trim: Trim = False,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyHeader = None,
) -> MemoryOut:
    """Change the named fields. With `If-Match`, only if nobody changed the memory since.

    Retry with the same `Idempotency-Key` and body to get the memory as it is by then; the same holds for deleting,
    restoring and pinning.
    """
    version = parse_version(if_match)

    def request_text() -> str:
        return f"{trim}:{version}:{body.model_dump_json(exclude_unset=True)}"

    key = retry_key("PATCH /memory", idempotency_key, memory_id, request_text)
    memory = await app.edit.patch_memory(scope, memory_id, body.named_changes(), version=version, trim=trim, key=key)
    return _with_etag(response, MemoryOut.from_memory(memory))


@router.delete(
    "/{memory_id:uuid}",
    response_model=MemoryOut,
    responses={
        200: {"links": links.MEMORY},
        204: {"description": "Purged"},
        **openapi_errors(401, 403, 404, 409, 422, 503),
    },
)
async def delete(
    app: App,
    scope: Writer,
    memory_id: UUID,
    purge: Annotated[bool, Query(description="for good, its text included; needs scope admin")] = False,
    idempotency_key: IdempotencyHeader = None,
) -> MemoryOut | Response:
    """Take a memory out of every answer; it can be restored until `purge_at`."""
    key = retry_key("DELETE /memory", idempotency_key, memory_id, str(purge))
    if not purge:
        return MemoryOut.from_memory(await app.edit.soft_delete_memory(scope, memory_id, key))
    if "admin" not in scope.scopes:
        raise ScopeRequired("purging needs a key with scope 'admin'")
    await app.edit.purge_memory(scope, memory_id, key)
    return Response(status_code=204)


@router.post(
    "/{memory_id:uuid}/restore",
    response_model=MemoryOut,
    responses={200: {"links": links.MEMORY}, **openapi_errors(401, 403, 404, 409, 422, 503)},
)
async def restore(app: App, scope: Writer, memory_id: UUID, idempotency_key: IdempotencyHeader = None) -> MemoryOut:
    """Bring a soft-deleted or superseded memory back."""
    key = retry_key("POST /memory/restore", idempotency_key, memory_id)
    return MemoryOut.from_memory(await app.edit.restore_memory(scope, memory_id, key))


@router.post(
    "/{memory_id:uuid}/pin",
    response_model=MemoryOut,
    responses={200: {"links": links.MEMORY}, **openapi_errors(400, 401, 403, 404, 409, 413, 422, 503)},
)
async def pin(
    app: App, scope: Writer, memory_id: UUID, body: PinIn | None = None, idempotency_key: IdempotencyHeader = None
) -> MemoryOut:
    """Pin or unpin; a pinned memory is never forgotten by age."""
    pinned = body.pinned if body else True
    key = retry_key("POST /memory/pin", idempotency_key, memory_id, str(pinned))
    return MemoryOut.from_memory(await app.edit.pin_memory(scope, memory_id, pinned, key))


@router.get(
    "/{memory_id:uuid}/history",
    response_model=HistoryPageOut,
    responses={200: {"links": links.HISTORY}, **openapi_errors(401, 403, 404, 422, 503)},
)
async def history(
    app: App, scope: Reader, memory_id: UUID, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> HistoryPageOut:
    """Everything that ever happened to a memory, newest first."""
    found = await app.history.list_history(scope, memory_id, cursor, limit)
    return HistoryPageOut(items=[HistoryOut.model_validate(r) for r in found.items], next_cursor=found.next_cursor)


def parse_version(if_match: str | None) -> int | None:
    """The version in If-Match, None for whatever there is; raises InvalidInput."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = re.fullmatch(VERSION, if_match.strip())
    if found is None:
        raise InvalidInput('If-Match takes a version, e.g. "3"')
    return int(found[3])


def _with_etag(response: Response, memory: MemoryOut) -> MemoryOut:
    response.headers["ETag"] = f'"{memory.version}"'
    return memory
