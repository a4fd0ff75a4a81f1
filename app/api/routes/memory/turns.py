"""Routes of /turns: store the turns of a conversation, and trace what became of one."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query
from mnema_wire.memory import NewTurn, Turn
from mnema_wire.turn_trace import TurnTrace

from app.api import links
from app.api.deps import App, Reader, Writer
from app.api.errors import body_errors, key_errors
from app.api.schemas.memory.turn_trace import trace_body
from app.api.schemas.memory.turns import to_turn, turn_body
from app.api.transport.client_name import ClientHeader
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute

router = APIRouter(prefix="/turns", tags=["turns"], route_class=StrictRoute)


@router.post("", status_code=201, responses={201: {"links": links.TURN}, **body_errors(409)})
async def store(
    app: App,
    principal: Writer,
    body: NewTurn,
    trim: Annotated[bool, Query(description="shorten a turn that is too long at a sentence or word end")] = False,
    idempotency_key: IdempotencyHeader = None,
    client: ClientHeader = None,
) -> Turn:
    """Store a turn. Queries find it at once. The user's favorites that it states are stored with it as facts
    (`docs/facts.md`); background jobs draw memories, episodes and summaries from it later.

    Retry with the same `Idempotency-Key` and body to get the first answer again.
    """
    key = retry_key("POST /turns", idempotency_key, lambda: f"{trim}:{body.model_dump_json()}")
    policies = app.parts.policies.of(principal)
    draft = to_turn(body, policies.turn_category, policies.write.default_importance, client)
    caller = principal.writing_through(client)
    with_model = body.learn == "model"
    stored = await app.memory.turns.store_turn(caller, draft, trim=trim, key=key, with_model=with_model)
    return turn_body(stored)


@router.get("/{memory_id:uuid}/trace", responses={200: {"links": links.TRACE}, **key_errors(404)})
async def trace(
    app: App, principal: Reader, memory_id: Annotated[UUID, Path(description="`id` of the answer of POST /turns")]
) -> TurnTrace:
    """Explain what the background work made of a turn, and why nothing was remembered.

    `reasons` has a code and a sentence each (`docs/operations.md`). A key bound to agents sees the memories of its
    categories and no counts; `tokens` and `last_error` need scope admin. Jobs and records of facts expire.
    """
    told = await app.operations.trace.trace_turn(principal, memory_id)
    return trace_body(told, counts=principal.categories is None, costs=principal.has_scope("admin"))
