"""Routes of /memory that say what a memory was: retract, supersede, correct and forget."""

from uuid import UUID

from fastapi import APIRouter
from mnema_wire.memory import Corrected, Correction, Forgetting, Forgotten, Memory, Supersession

from app.api import links
from app.api.deps import App, Writer
from app.api.errors import body_errors, key_errors
from app.api.forgetting import forget_memories
from app.api.routes.memory.memories import IfMatch, parse_version
from app.api.schemas.memory.memories import memory_body, to_correction
from app.api.transport.client_name import ClientHeader
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute

router = APIRouter(prefix="/memory", tags=["memory"], route_class=StrictRoute)


@router.post("/{memory_id:uuid}/retract", responses={200: {"links": links.MEMORY}, **key_errors(404, 409, 412)})
async def retract(
    app: App,
    principal: Writer,
    memory_id: UUID,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyHeader = None,
    client: ClientHeader = None,
) -> Memory:
    """Mark a memory as wrong: it was never true, and no answer contains it. A restore undoes it."""
    version = parse_version(if_match)
    key = retry_key("POST /memory/retract", idempotency_key, memory_id, str(version))
    actor = principal.writing_through(client)
    return memory_body(await app.memory.edit.retract_memory(actor, memory_id, key, version=version))


@router.post("/{memory_id:uuid}/supersede", responses={200: {"links": links.MEMORY}, **body_errors(404, 409, 412)})
async def supersede(
    app: App,
    principal: Writer,
    memory_id: UUID,
    body: Supersession | None = None,
    if_match: IfMatch = None,
    idempotency_key: IdempotencyHeader = None,
    client: ClientHeader = None,
) -> Memory:
    """End the span of a memory that was true and is so no longer: because of a later one (`by`), or by itself.

    A restore undoes it.
    """
    given = body or Supersession()
    version = parse_version(if_match)
    key = retry_key(
        "POST /memory/supersede", idempotency_key, memory_id, lambda: f"{version}:{given.model_dump_json()}"
    )
    actor = principal.writing_through(client)
    memory = await app.memory.edit.supersede_memory(
        actor, memory_id, key, by=given.by, valid_to=given.valid_to, version=version
    )
    return memory_body(memory)


@router.post("/correct", responses={200: {"links": links.CORRECTED}, **body_errors(404, 409)})
async def correct(
    app: App,
    principal: Writer,
    body: Correction,
    idempotency_key: IdempotencyHeader = None,
    client: ClientHeader = None,
) -> Corrected:
    """Write the right text as a new memory, and close or retract the stored one, in one transaction."""
    key = retry_key("POST /memory/correct", idempotency_key, body)
    actor = principal.writing_through(client)
    corrected = await app.memory.correct.correct_memory(actor, to_correction(body), key)
    return Corrected.model_validate(corrected, from_attributes=True)


@router.post("/forget", responses={200: {"links": links.FORGOTTEN}, **body_errors(404, 409)})
async def forget(app: App, principal: Writer, body: Forgetting, client: ClientHeader = None) -> Forgotten:
    """Return the memories that an id or a description means. With `confirm`, soft-delete the named ones.

    Each can be restored until its `purge_at`.
    """
    return await forget_memories(app, principal.writing_through(client), body)
