"""Routes for clients that speak of projects and chats: /facts/store, /facts/get, /index-chat-message."""

import hashlib
from typing import Any, Literal
from uuid import UUID

from fastapi import APIRouter
from mnema_wire import projects as wire

from app.api import links
from app.api.deps import App, Reader, Writer
from app.api.errors import body_errors
from app.api.schemas.facts.facts import actions_body, to_new_fact
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.bootstrap import Application
from app.domain.errors import InvalidInput
from app.domain.facts.fact import Fact, FactFilter
from app.domain.facts.label import MemoryActions
from app.domain.memory.memory import MemoryType, NewMemory, Origin
from app.domain.principal import Principal
from app.usecases.facts.store import FactPlace
from app.usecases.memory.turns import StoredTurn

router = APIRouter(tags=["facts"], route_class=StrictRoute)
MOST = 200
"""The most facts of one answer."""


def to_project_place(body: wire.NewProjectFact) -> FactPlace:
    """Return the place of the statement."""
    return FactPlace(body.user_id, body.chat_id, body.source_message_id, body.created_at)


def stored_project_fact_body(fact_id: UUID | None, action: Literal["store", "update"] | None) -> wire.StoredProjectFact:
    """Return the body for what was done to a fact."""
    actions = MemoryActions(stored=int(action == "store"), updated=int(action == "update"))
    return wire.StoredProjectFact(
        fact_id=fact_id,
        action_type=action,
        memory_actions=actions_body(actions),
        model_label=actions.label(),
    )


def project_fact_body(fact: Fact, project: str) -> wire.ProjectFact:
    """Return the body for a domain object of this project."""
    names = ("id", "topic_key", "kind", "rank", "value", "source_message_id", "created_at")
    values: dict[str, Any] = {name: getattr(fact, name) for name in names}
    return wire.ProjectFact(project_id=project, chat_id=fact.thread_id, **values)


def to_new_turn(body: wire.ChatMessage, category: str, importance: int) -> NewMemory:
    """Return the memory of type turn, with this category and importance."""
    return NewMemory(
        user_id=body.user_id,
        thread_id=body.chat_id,
        role=body.role,
        text=body.content,
        seq=body.message_index,
        created_at=body.timestamp,
        source={"turn_id": body.message_id},
        type=MemoryType.turn,
        category=category,
        importance=importance,
        origin=Origin.turn,
    )


def indexed_message_body(turn: StoredTurn, message: wire.ChatMessage) -> wire.IndexedMessage:
    """Return the body for the use-case's result."""
    actions = turn.actions or MemoryActions()
    return wire.IndexedMessage(
        id=turn.id,
        chat_id=message.chat_id,
        message_id=message.message_id,
        revision=turn.revision,
        reason=turn.reason,
        memory_actions=actions_body(actions),
        model_label=actions.label(),
    )


@router.post("/facts/store", status_code=201, responses={201: {"links": links.PROJECT_FACT}, **body_errors(404, 409)})
async def store_value(
    app: App, principal: Writer, body: wire.NewProjectFact, idempotency_key: IdempotencyHeader = None
) -> wire.StoredProjectFact:
    """Store one value of a project's chat. Retry with the same `Idempotency-Key` and body to store once."""
    await _require_project(app, principal, body.project_id)
    key = retry_key("POST /facts/store", idempotency_key, body)
    place = to_project_place(body)
    fact = to_new_fact(body)
    return stored_project_fact_body(*await app.facts.store.store_project_fact(principal, place, fact, key))


@router.post("/facts/get", responses=body_errors(404))
async def get_values(app: App, principal: Reader, body: wire.ProjectFactsQuery) -> wire.ProjectFacts:
    """Return at most 200 facts of a project's chat by topic and rank."""
    if body.rank is not None and body.topic_key is None:
        raise InvalidInput("rank needs topic_key")
    await _require_project(app, principal, body.project_id)
    project = body.project_id or str(principal.tenant_id)
    filters = FactFilter(body.user_id, body.chat_id, body.topic_key, body.rank)
    page = await app.facts.read.list_facts(principal, filters, None, MOST)
    return wire.ProjectFacts(facts=[project_fact_body(fact, project) for fact in page.items])


@router.post("/index-chat-message", status_code=201, responses=body_errors(404, 409))
async def index_chat_message(app: App, principal: Writer, body: wire.ChatMessage) -> wire.IndexedMessage:
    """Store a message of a chat as a turn. The same message sent again is stored once."""
    await _require_project(app, principal, body.project_id)
    place = "\x00".join((body.user_id, body.chat_id, body.message_id))
    key = retry_key("POST /index-chat-message", hashlib.sha256(place.encode()).hexdigest(), body)
    policies = app.parts.policies.of(principal)
    draft = to_new_turn(body, policies.turn_category, policies.write.default_importance)
    return indexed_message_body(await app.memory.turns.store_turn(principal, draft, key=key), body)


async def _require_project(app: Application, principal: Principal, project: str | None) -> None:
    if project is not None:
        await app.tenancy.tenants.require_project(principal, project)
