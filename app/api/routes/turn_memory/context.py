"""Routes of views: what an agent reads of a conversation, and the assistant signals of a user."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from mnema_wire.blocks import MAX_TURNS
from mnema_wire.checks import check_storable
from mnema_wire.fields import Identifier
from mnema_wire.limits import MAX_IDENTIFIER
from mnema_wire.turn_limits import MAX_KEY
from mnema_wire.turn_views import ContextView, SignalTurns
from pydantic import AfterValidator, Field

from app.api.deps import App, Reader
from app.api.errors import key_errors
from app.api.routes.turn_memory.turns import ConversationId, UserId
from app.api.schemas.turn_memory.context import context_view_body, signal_turn_body
from app.api.transport.parameters import StrictRoute
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.views import ViewName, ViewRequest

router = APIRouter(tags=["turn_memory"], route_class=StrictRoute)
SignalKey = Annotated[str, Field(max_length=MAX_KEY), AfterValidator(check_storable)]
TurnName = Annotated[str, Field(max_length=MAX_IDENTIFIER), AfterValidator(check_storable)]


@router.get("/conversations/{conversation_id:conversation}/context", responses=key_errors())
async def get_context(
    app: App,
    principal: Reader,
    conversation_id: ConversationId,
    user_id: UserId,
    view: Annotated[ViewName, Query(description="who reads it")],
    turn_id: Annotated[Identifier | None, Query(description="the current turn; absent: there is none")] = None,
    local_memories_turn_ids: Annotated[
        list[TurnName] | None,
        Query(
            max_length=MAX_TURNS,
            description="the selected turns, in place of those in the active set: ids or unique beginnings of ids; "
            "an empty one alone selects none",
        ),
    ] = None,
) -> ContextView:
    """Return what an agent reads of a conversation, newest turn first.

    The views `gate` and `reconciler` have the memories of the newest turns, of turns that are not reconciled yet and of
    selected turns, at most 16. The views `downstream` and `final` have only those of selected turns, once something was
    selected. All views have the feedback. Only `final` has the assistant signals, from all conversations of the user.
    """
    request = ViewRequest(view, turn_id, local_memories_turn_ids)
    return context_view_body(
        await app.turn_memory.context.read_view(principal, Conversation(user_id, conversation_id), request)
    )


@router.get("/users/{user_id:path}/assistant-signals", responses=key_errors())
async def list_assistant_signals(
    app: App,
    principal: Reader,
    user_id: Annotated[Identifier, Path(description="the user whose conversations they are")],
    days: Annotated[int | None, Query(ge=1, le=3650, description="only turns of these days")] = None,
    limit: Annotated[int | None, Query(ge=1, le=100, description="maximum number of turns")] = None,
    key: Annotated[SignalKey | None, Query(description="only turns with a signal of this key")] = None,
) -> SignalTurns:
    """List the user's newest turns in which the assistant mentioned or promoted something, in all conversations."""
    turns = await app.turn_memory.context.list_signals(principal, user_id, days, limit, key)
    return SignalTurns(items=[signal_turn_body(turn) for turn in turns])
