"""Routes for clients that speak of projects and chats: /facts/store, /facts/get, /index-chat-message."""

import hashlib

from fastapi import APIRouter
from mnema_wire.projects import (
    ChatMessage,
    IndexedMessage,
    NewProjectFact,
    ProjectFacts,
    ProjectFactsQuery,
    StoredProjectFact,
)

from app.api import links
from app.api.deps import App, Reader, Writer
from app.api.errors import openapi_errors
from app.api.schemas.facts.facts import to_new_fact
from app.api.schemas.facts.projects import (
    indexed_message_body,
    project_fact_body,
    stored_project_fact_body,
    to_new_turn,
    to_project_place,
)
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.bootstrap import Application
from app.domain.errors import InvalidInput
from app.domain.facts.fact import FactFilter
from app.domain.principal import Principal

router = APIRouter(tags=["facts"], route_class=StrictRoute)
MOST = 200
"""The most facts of one answer."""


@router.post(
    "/facts/store",
    status_code=201,
    response_model=StoredProjectFact,
    responses={201: {"links": links.PROJECT_FACT}, **openapi_errors(400, 401, 403, 404, 409, 413, 422, 503)},
)
async def store_value(
    app: App, principal: Writer, body: NewProjectFact, idempotency_key: IdempotencyHeader = None
) -> StoredProjectFact:
    """Store one value of a project's chat. Retry with the same `Idempotency-Key` and body to store once."""
    await _require_project(app, principal, body.project_id)
    key = retry_key("POST /facts/store", idempotency_key, body)
    place = to_project_place(body)
    fact = to_new_fact(body)
    return stored_project_fact_body(*await app.facts.store.store_project_fact(principal, place, fact, key))


@router.post(
    "/facts/get",
    response_model=ProjectFacts,
    responses=openapi_errors(400, 401, 403, 404, 413, 422, 503),
)
async def get_values(app: App, principal: Reader, body: ProjectFactsQuery) -> ProjectFacts:
    """Return at most 200 facts of a project's chat by topic and rank."""
    if body.rank is not None and body.topic_key is None:
        raise InvalidInput("rank needs topic_key")
    await _require_project(app, principal, body.project_id)
    project = body.project_id or str(principal.tenant_id)
    filters = FactFilter(body.user_id, body.chat_id, body.topic_key, body.rank)
    page = await app.facts.read.list_facts(principal, filters, None, MOST)
    return ProjectFacts(facts=[project_fact_body(fact, project) for fact in page.items])


@router.post(
    "/index-chat-message",
    status_code=201,
    response_model=IndexedMessage,
    responses=openapi_errors(400, 401, 403, 404, 409, 413, 422, 503),
)
async def index_chat_message(app: App, principal: Writer, body: ChatMessage) -> IndexedMessage:
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
