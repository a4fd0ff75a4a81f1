"""Routes of /memory: write, query, read and change memories, and read their history."""

import re
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query, Response
from mnema_wire.fields import Identifier, Language, Limit, MetadataPair, Moment, StateName, TypeName, WhereText, Words
from mnema_wire.memory import (
    Changes,
    HistoryEntry,
    HistoryPage,
    Memory,
    MemoryPage,
    NewMemory,
    PinChoice,
    Written,
)
from mnema_wire.recall import Answer, Question

from app.api import links
from app.api.deps import App, Reader, Writer
from app.api.errors import body_errors, key_errors
from app.api.schemas.memory.memories import memory_body, named_changes, to_new_memory
from app.api.schemas.recall.query import answer_body, to_query
from app.api.transport.client_name import ClientHeader
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.domain.errors import InvalidInput, ScopeRequired
from app.domain.filters import Filters
from app.domain.memory.listing import MemoryListing, OrderName, SortName, parse_metadata
from app.domain.memory.moments import Moments
from app.domain.where.parsing import read_where

router = APIRouter(prefix="/memory", tags=["memory"], route_class=StrictRoute)
Trim = Annotated[bool, Query(description="shorten a text that is too long at a sentence or word end")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")]
AsOf = Annotated[Moment | None, Query(description="what Mnema knew at this time, which is not in the future")]
ValidAt = Annotated[Moment | None, Query(description="what was so at this time; superseded memories too")]
VERSION = r'^(\*|(W/)?"?([0-9]{1,9})"?)$'
IfMatch = Annotated[str | None, Header(description='the version, e.g. `"3"`', json_schema_extra={"pattern": VERSION})]
ETAG_RESPONSE: dict[str, Any] = {
    "headers": {"ETag": {"required": True, "description": "the version", "schema": {"type": "string"}}},
    "links": links.MEMORY,
}


@router.post("", status_code=201, responses={201: {"links": links.WRITTEN}, **body_errors(409)})
async def remember(
    app: App,
    principal: Writer,
    body: NewMemory,
    trim: Trim = False,
    idempotency_key: IdempotencyHeader = None,
    client: ClientHeader = None,
) -> Written:
    """Write a memory.

    A semantic text that states the same fact as a stored memory of the same user and category updates that memory.
    Retry with the same `Idempotency-Key` and body to get the first answer again.
    """
    key = retry_key("POST /memory", idempotency_key, lambda: f"{trim}:{body.model_dump_json()}")
    draft = to_new_memory(body, app.parts.policies.of(principal).write, client)
    written = await app.memory.write.write_memory(principal.writing_through(client), draft, trim=trim, key=key)
    return Written.model_validate(written, from_attributes=True)


@router.get("", responses={200: {"links": links.MEMORIES}, **key_errors()})
async def page(
    app: App,
    principal: Reader,
    user_id: Annotated[Identifier | None, Query()] = None,
    q: Annotated[Words | None, Query(description='words of the text: all of them, "a phrase", or, -without')] = None,
    category: Annotated[list[Identifier] | None, Query(max_length=50, description="any of these categories")] = None,
    type: Annotated[list[TypeName] | None, Query(max_length=7, description="any of these types")] = None,
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
    language: Annotated[Language | None, Query()] = None,
    expires_after: Annotated[Moment | None, Query()] = None,
    expires_before: Annotated[Moment | None, Query()] = None,
    created_after: Annotated[Moment | None, Query()] = None,
    created_before: Annotated[Moment | None, Query()] = None,
    metadata: Annotated[list[MetadataPair] | None, Query(max_length=10, description="key:value; all of them")] = None,
    where: Annotated[WhereText | None, Query()] = None,
    sort: Annotated[SortName, Query()] = "created_at",
    order: Annotated[OrderName, Query()] = "desc",
    as_of: AsOf = None,
    valid_at: ValidAt = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Cursor = None,
) -> MemoryPage:
    """List memories, newest first unless `sort` and `order` say otherwise. All filters must match.

    With `as_of` or `valid_at`, list those of `user_id` at that time. The cursor of such a list keeps both.
    """
    whose: dict[str, Any] = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "actor_id": actor_id}
    which: dict[str, Any] = {"role": role, "thread_id": thread_id, "tag": tag, "pinned": pinned, "language": language}
    changed: dict[str, Any] = {"updated_after": updated_after, "updated_before": updated_before}
    expiring: dict[str, Any] = {"expires_after": expires_after, "expires_before": expires_before}
    important: dict[str, Any] = {"importance_min": importance_min, "importance_max": importance_max}
    created: dict[str, Any] = {"created_after": created_after, "created_before": created_before}
    filters = Filters(**whose, **which, **changed, **expiring, **important, **created, where=read_where(where))
    pairs = tuple(map(parse_metadata, metadata or ()))
    kinds = tuple(category or ()), tuple(type or ())
    moments = Moments(as_of, valid_at)
    listing = MemoryListing(filters, state, q, *kinds, pairs, sort, order, moments)
    memories = await app.memory.read.list_memories(principal, listing, cursor, limit)
    return MemoryPage(items=[memory_body(m) for m in memories.items], next_cursor=memories.next_cursor)


@router.post(
    "/query",
    response_model_exclude_none=True,
    responses={200: {"links": links.ANSWER}, **body_errors()},
    operation_id="memory_query",
)
async def query(app: App, principal: Reader, body: Question) -> Answer:
    """Answer `memory.query`: the memories that an agent needs for a question, within its allowlist and token budget."""
    answer = await app.recall.query.answer_query(principal, to_query(body, body.user_id))
    return answer_body(answer, full=body.returns == "full", explain=body.explain)


@router.get("/{memory_id:uuid}", responses={200: ETAG_RESPONSE, **key_errors(404)})
async def get(
    app: App, principal: Reader, memory_id: UUID, response: Response, as_of: AsOf = None, valid_at: ValidAt = None
) -> Memory:
    """Return one memory in any state, with its version as ETag.

    With `as_of`, return it as it was then: 404 if it was not stored yet. With `valid_at`: 404 if it was not so then.
    """
    memory = await app.memory.read.get_memory(principal, memory_id, Moments(as_of, valid_at))
    return _with_etag(response, memory_body(memory))


@router.patch("/{memory_id:uuid}", responses={200: ETAG_RESPONSE, **body_errors(404, 409, 412)})
async def patch(
    app: App,
    principal: Writer,
    memory_id: UUID,
    body: Changes,
    response: Response,
    trim: Trim = False,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyHeader = None,
    client: ClientHeader = None,
) -> Memory:
    """Change the named fields. With `If-Match`, change them only if the memory still has that version.

    Retry with the same `Idempotency-Key` and body to get the memory in its current state. Delete, restore and pin work
    the same way.
    """
    version = parse_version(if_match)

    def request_text() -> str:
        return f"{trim}:{version}:{body.model_dump_json(exclude_unset=True)}"

    key = retry_key("PATCH /memory", idempotency_key, memory_id, request_text)
    memory = await app.memory.edit.patch_memory(
        principal.writing_through(client), memory_id, named_changes(body), version=version, trim=trim, key=key
    )
    return _with_etag(response, memory_body(memory))


@router.delete(
    "/{memory_id:uuid}",
    response_model=Memory,
    responses={200: {"links": links.MEMORY}, 204: {"description": "Purged"}, **key_errors(404, 409, 412)},
)
async def delete(
    app: App,
    principal: Writer,
    memory_id: UUID,
    purge: Annotated[bool, Query(description="delete the memory and its text for good; needs scope admin")] = False,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyHeader = None,
    client: ClientHeader = None,
) -> Memory | Response:
    """Soft-delete a memory: no answer contains it. It can be restored until `purge_at`. With `If-Match`, delete it only
    if it still has that version.
    """
    version = parse_version(if_match)
    key = retry_key("DELETE /memory", idempotency_key, memory_id, f"{purge}:{version}")
    actor = principal.writing_through(client)
    if not purge:
        return memory_body(await app.memory.edit.soft_delete_memory(actor, memory_id, key, version=version))
    if "admin" not in principal.scopes:
        raise ScopeRequired("a purge needs a key with scope 'admin'")
    await app.memory.edit.purge_memory(actor, memory_id, key, version=version)
    return Response(status_code=204)


@router.post("/{memory_id:uuid}/restore", responses={200: {"links": links.MEMORY}, **key_errors(404, 409)})
async def restore(app: App, principal: Writer, memory_id: UUID, idempotency_key: IdempotencyHeader = None) -> Memory:
    """Make a memory active again that is soft-deleted, superseded, retracted or expired."""
    key = retry_key("POST /memory/restore", idempotency_key, memory_id)
    return memory_body(await app.memory.edit.restore_memory(principal, memory_id, key))


@router.post("/{memory_id:uuid}/pin", responses={200: {"links": links.MEMORY}, **body_errors(404, 409)})
async def pin(
    app: App,
    principal: Writer,
    memory_id: UUID,
    body: PinChoice | None = None,
    idempotency_key: IdempotencyHeader = None,
) -> Memory:
    """Pin or unpin a memory. A pinned memory is never forgotten because of its age."""
    pinned = body.pinned if body else True
    key = retry_key("POST /memory/pin", idempotency_key, memory_id, str(pinned))
    return memory_body(await app.memory.edit.pin_memory(principal, memory_id, pinned, key))


@router.get("/{memory_id:uuid}/history", responses={200: {"links": links.HISTORY}, **key_errors(404)})
async def history(
    app: App, principal: Reader, memory_id: UUID, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> HistoryPage:
    """List the history of a memory, newest first."""
    rows = await app.memory.history.list_history(principal, memory_id, cursor, limit)
    return HistoryPage(items=[HistoryEntry.model_validate(row) for row in rows.items], next_cursor=rows.next_cursor)


def parse_version(if_match: str | None) -> int | None:
    """Return the version in an If-Match header, None if it is absent or `*`. Raise InvalidInput."""
    if if_match is None or if_match.strip() == "*":
        return None
    match = re.fullmatch(VERSION, if_match.strip())
    if match is None:
        raise InvalidInput('If-Match takes a version, e.g. "3"')
    return int(match[3])


def _with_etag(response: Response, memory: Memory) -> Memory:
    response.headers["ETag"] = f'"{memory.version}"'
    return memory
