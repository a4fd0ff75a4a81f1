"""Routes of turns: their log, their fingerprint, the artifacts of a conversation and its active set."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from mnema_wire import turn_memory as wire
from mnema_wire.fields import Identifier, Limit

from app.api import links
from app.api.deps import App, Reader, Writer
from app.api.errors import body_errors, key_errors
from app.api.transport.parameters import StrictRoute
from app.bootstrap import Application
from app.domain.principal import Principal
from app.domain.turn_memory.active_set import ActiveSet
from app.domain.turn_memory.artifacts import ArtifactKind, Conversation
from app.domain.turn_memory.fingerprint import Fingerprint
from app.usecases.turn_memory.active_set import Selection, UnknownIds
from app.usecases.turn_memory.artifacts import ArtifactQuery, ReadArtifact
from app.usecases.turn_memory.turns import NewTurn, StoredTurn

router = APIRouter(
    prefix="/conversations/{conversation_id:conversation}", tags=["turn_memory"], route_class=StrictRoute
)
ConversationId = Annotated[Identifier, Path(description="the conversation: the thread of its turns")]
TurnId = Annotated[Identifier, Path(description="the id that the client gave the turn")]
UserId = Annotated[Identifier, Query(description="the user whose conversation it is")]
_TURN = "/turns/{turn_id:last_turn}"
_WRITE_ERRORS = body_errors(404)
_READ_ERRORS = key_errors(404)


def to_new_turn(body: wire.TurnLogIn, turn_id: str) -> NewTurn:
    """Return the turn to store."""
    return NewTurn(turn_id, **body.model_dump(exclude={"user_id", "project_id"}))


def to_raw_fingerprint(body: wire.FingerprintIn) -> dict[str, Any]:
    """Return the parts of the fingerprint itself."""
    return body.model_dump(exclude={"user_id", "project_id", "track_id", "made_at", "extra_tags"})


def to_selection(body: wire.ActiveSetIn) -> Selection:
    """Return the selection."""
    turns = body.selected_local_memories_turn_ids
    buckets = body.picked_bucket_ids
    return Selection(
        None if turns is None else tuple(turns),
        None if buckets is None else tuple(buckets),
        body.conversation_title,
    )


def fingerprint_body(fingerprint: Fingerprint, extra_tags: Sequence[str]) -> wire.FingerprintOut:
    """Return the body for a stored fingerprint."""
    tags = list(dict.fromkeys((*fingerprint.tags(), *extra_tags)))
    return wire.FingerprintOut(fingerprint=fingerprint.as_json(), tags=tags)


def stored_turn_body(stored: StoredTurn, conversation_id: str) -> wire.StoredTurnOut:
    """Return the body for a stored turn."""
    state = stored.state
    return wire.StoredTurnOut(
        turn_id=state.turn_id,
        conversation_id=conversation_id,
        track_id=state.track_id,
        made_at=state.log.made_at if state.log else state.now,
        created=stored.created,
    )


def artifact_body(read: ReadArtifact) -> wire.ArtifactOut:
    """Return the body for an artifact."""
    one = read.artifact
    names = wire.ArtifactOut.model_fields.keys() - {"content", "tags"}
    return wire.ArtifactOut(**{name: getattr(one, name) for name in names}, tags=list(one.tags), content=read.content)


def active_set_body(active: ActiveSet, unknown: UnknownIds | None = None) -> wire.ActiveSetOut:
    """Return the body for an active set."""
    turns, buckets = unknown or ((), ())
    return wire.ActiveSetOut(**active.as_json(), unknown_turn_ids=list(turns), unknown_bucket_ids=list(buckets))


async def conversation_of(
    app: Application, principal: Principal, conversation_id: str, body: wire.TurnMemoryIn
) -> Conversation:
    """Return the conversation that a body means. Raise UnknownProject for a project of another tenant."""
    if body.project_id is not None:
        await app.tenancy.tenants.require_project(principal, body.project_id)
    return Conversation(body.user_id, conversation_id)


@router.put("/turns/{turn_id:path}/fingerprint", responses=_WRITE_ERRORS)
async def put_fingerprint(
    app: App, principal: Writer, conversation_id: ConversationId, turn_id: TurnId, body: wire.FingerprintIn
) -> wire.FingerprintOut:
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


@router.put(_TURN, responses={**_WRITE_ERRORS, 200: {"links": links.STORED_TURN}, 201: {"description": "Created"}})
async def put_turn(
    app: App,
    principal: Writer,
    conversation_id: ConversationId,
    turn_id: TurnId,
    body: wire.TurnLogIn,
    response: Response,
) -> wire.StoredTurnOut:
    """Store the log of a turn, or change it. Its fingerprint and its feedback stay."""
    conversation = await conversation_of(app, principal, conversation_id, body)
    stored = await app.turn_memory.turns.put_turn(principal, conversation, to_new_turn(body, turn_id))
    response.status_code = 201 if stored.created else 200
    return stored_turn_body(stored, conversation_id)


@router.get(_TURN, responses=_READ_ERRORS)
async def get_turn(
    app: App, principal: Reader, conversation_id: ConversationId, turn_id: TurnId, user_id: UserId
) -> wire.ArtifactOut:
    """Return the whole log of a turn."""
    read = await app.turn_memory.read.read_turn(principal, Conversation(user_id, conversation_id), turn_id)
    return artifact_body(read)


@router.delete(_TURN, responses=_WRITE_ERRORS)
async def delete_turn(
    app: App, principal: Writer, conversation_id: ConversationId, turn_id: TurnId, user_id: UserId
) -> wire.DeletedTurnOut:
    """Delete a turn for good: its log, its fingerprint and its feedback."""
    conversation = Conversation(user_id, conversation_id)
    return wire.DeletedTurnOut(deleted=await app.turn_memory.delete.delete_turn(principal, conversation, turn_id))


@router.get("/artifacts", responses={200: {"links": links.ARTIFACTS}, **key_errors()})
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
) -> wire.ArtifactPageOut:
    """List the artifacts of a conversation, newest first, with the conversation's title."""
    query = ArtifactQuery(kind, tag, turn_id, days, materialize, cursor, limit)
    page = await app.turn_memory.read.list_artifacts(principal, Conversation(user_id, conversation_id), query)
    return wire.ArtifactPageOut(
        conversation_title=page.conversation_title,
        items=[artifact_body(item) for item in page.items],
        next_cursor=page.next_cursor,
    )


@router.get("/active-set", responses=key_errors())
async def get_active_set(
    app: App, principal: Reader, conversation_id: ConversationId, user_id: UserId
) -> wire.ActiveSetOut:
    """Return what is selected in the conversation, and how far its buckets are reconciled."""
    conversation = Conversation(user_id, conversation_id)
    return active_set_body(await app.turn_memory.active_set.read_active_set(principal, conversation))


@router.put("/active-set", responses=_WRITE_ERRORS)
async def put_active_set(
    app: App, principal: Writer, conversation_id: ConversationId, body: wire.ActiveSetIn
) -> wire.ActiveSetOut:
    """Select the turns whose memories matter from now on, and the buckets."""
    conversation = await conversation_of(app, principal, conversation_id, body)
    chosen = await app.turn_memory.active_set.select_memories(principal, conversation, to_selection(body))
    return active_set_body(*chosen)
