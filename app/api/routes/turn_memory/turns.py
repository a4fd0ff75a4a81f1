"""Routes of turns: their log, their fingerprint, the artifacts of a conversation and its active set."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from mnema_wire.fields import Identifier, Limit
from mnema_wire.turn_memory import (
    ActiveSetIn,
    ActiveSetOut,
    ArtifactOut,
    ArtifactPageOut,
    DeletedTurnOut,
    FingerprintIn,
    FingerprintOut,
    StoredTurnOut,
    TurnLogIn,
    TurnMemoryIn,
)

from app.api import links
from app.api.deps import App, Reader, Writer
from app.api.errors import openapi_errors
from app.api.schemas.turn_memory.turns import (
    active_set_body,
    artifact_body,
    fingerprint_body,
    stored_turn_body,
    to_new_turn,
    to_raw_fingerprint,
    to_selection,
)
from app.api.transport.parameters import StrictRoute
from app.bootstrap import Application
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import ArtifactKind, Conversation
from app.usecases.turn_memory.artifacts import ArtifactQuery

router = APIRouter(
    prefix="/conversations/{conversation_id:conversation}", tags=["turn_memory"], route_class=StrictRoute
)
ConversationId = Annotated[Identifier, Path(description="the conversation: the thread of its turns")]
TurnId = Annotated[Identifier, Path(description="the id that the client gave the turn")]
UserId = Annotated[Identifier, Query(description="the user whose conversation it is")]
_TURN = "/turns/{turn_id:last_turn}"
_WRITE_ERRORS = openapi_errors(400, 401, 403, 404, 413, 422, 503)
_READ_ERRORS = openapi_errors(401, 403, 404, 422, 503)


async def conversation_of(
    app: Application, principal: Principal, conversation_id: str, body: TurnMemoryIn
) -> Conversation:
    """Return the conversation that a body means. Raise UnknownProject for a project of another tenant."""
    if body.project_id is not None:
        await app.tenancy.tenants.require_project(principal, body.project_id)
    return Conversation(body.user_id, conversation_id)


@router.put("/turns/{turn_id:path}/fingerprint", response_model=FingerprintOut, responses=_WRITE_ERRORS)
async def put_fingerprint(
    app: App, principal: Writer, conversation_id: ConversationId, turn_id: TurnId, body: FingerprintIn
) -> FingerprintOut:
    """Store the fingerprint of a turn, in place of an earlier one: in the turn's log, artifact and tags at once."""
    conversation = await conversation_of(app, principal, conversation_id, body)
    fingerprint = await app.turn_memory.turns.put_fingerprint(
        principal,
        conversation,
        turn_id,
        to_raw_fingerprint(body),
        made_at=body.made_at,
        track_id=body.track_id,
        extra_tags=body.extra_tags,
    )
    return fingerprint_body(fingerprint, body.extra_tags)


@router.put(
    _TURN,
    response_model=StoredTurnOut,
    responses={**_WRITE_ERRORS, 200: {"links": links.STORED_TURN}, 201: {"description": "Created"}},
)
async def put_turn(
    app: App, principal: Writer, conversation_id: ConversationId, turn_id: TurnId, body: TurnLogIn, response: Response
) -> StoredTurnOut:
    """Store the log of a turn, or change it. Its fingerprint and its feedback stay."""
    conversation = await conversation_of(app, principal, conversation_id, body)
    stored = await app.turn_memory.turns.put_turn(principal, conversation, to_new_turn(body, turn_id))
    response.status_code = 201 if stored.created else 200
    return stored_turn_body(stored, conversation_id)


@router.get(_TURN, response_model=ArtifactOut, responses=_READ_ERRORS)
async def get_turn(
    app: App, principal: Reader, conversation_id: ConversationId, turn_id: TurnId, user_id: UserId
) -> ArtifactOut:
    """Return the whole log of a turn."""
    read = await app.turn_memory.read.read_turn(principal, Conversation(user_id, conversation_id), turn_id)
    return artifact_body(read)


@router.delete(_TURN, response_model=DeletedTurnOut, responses=_WRITE_ERRORS)
async def delete_turn(
    app: App, principal: Writer, conversation_id: ConversationId, turn_id: TurnId, user_id: UserId
) -> DeletedTurnOut:
    """Delete a turn for good: its log, its fingerprint and its feedback."""
    conversation = Conversation(user_id, conversation_id)
    return DeletedTurnOut(deleted=await app.turn_memory.delete.delete_turn(principal, conversation, turn_id))


@router.get(
    "/artifacts",
    response_model=ArtifactPageOut,
    responses={200: {"links": links.ARTIFACTS}, **openapi_errors(401, 403, 422, 503)},
)
async def list_artifacts(
    app: App,
    principal: Reader,
    conversation_id: ConversationId,
    user_id: UserId,
    kind: Annotated[list[ArtifactKind] | None, Query(max_length=6)] = None,
    tag: Annotated[Identifier | None, Query()] = None,
    turn_id: Annotated[Identifier | None, Query()] = None,
    days: Annotated[int | None, Query(ge=1, le=3650, description="only artifacts of these days")] = None,
    materialize: Annotated[bool, Query(description="read the blobs too; then a page has at most 20")] = False,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page")] = None,
) -> ArtifactPageOut:
    """List the artifacts of a conversation, newest first, with the conversation's title."""
    query = ArtifactQuery(kind, tag, turn_id, days, materialize, cursor, limit)
    page = await app.turn_memory.read.list_artifacts(principal, Conversation(user_id, conversation_id), query)
    return ArtifactPageOut(
        conversation_title=page.conversation_title,
        items=[artifact_body(item) for item in page.items],
        next_cursor=page.next_cursor,
    )


@router.get("/active-set", response_model=ActiveSetOut, responses=openapi_errors(401, 403, 422, 503))
async def get_active_set(app: App, principal: Reader, conversation_id: ConversationId, user_id: UserId) -> ActiveSetOut:
    """Return what is selected in the conversation, and how far its buckets are reconciled."""
    conversation = Conversation(user_id, conversation_id)
    return active_set_body(await app.turn_memory.active_set.read_active_set(principal, conversation))


@router.put("/active-set", response_model=ActiveSetOut, responses=_WRITE_ERRORS)
async def put_active_set(
    app: App, principal: Writer, conversation_id: ConversationId, body: ActiveSetIn
) -> ActiveSetOut:
    """Select the turns whose memories matter from now on, and the buckets."""
    conversation = await conversation_of(app, principal, conversation_id, body)
    chosen = await app.turn_memory.active_set.select_memories(principal, conversation, to_selection(body))
    return active_set_body(*chosen)
