"""Routes of /facts: store, read, change and answer facts without any model (`docs/facts.md`)."""

from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response
from mnema_wire.facts import (
    ActionsSoFar,
    Fact,
    FactPage,
    FactQuestion,
    FactReply,
    NewValue,
    Statement,
    StoredFacts,
    TopicKey,
)
from mnema_wire.fields import Identifier, Limit, Moment, NameCursor, WhereText
from mnema_wire.memory import HistoryEntry, HistoryPage

from app.api import links
from app.api.deps import App, Reader, Writer, require_scope
from app.api.errors import body_errors, key_errors
from app.api.schemas.facts.facts import (
    fact_body,
    fact_reply_body,
    label_and_meta,
    stored_facts_body,
    to_actions,
    to_new_fact,
    to_place,
)
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.domain.facts.fact import WHERE_FIELDS, FactFilter
from app.domain.memory.moments import Moments
from app.domain.outages import DatabaseUnavailable
from app.domain.where.parsing import read_where

router = APIRouter(prefix="/facts", tags=["facts"], route_class=StrictRoute)
Cursor = Annotated[NameCursor | None, Query(description="`next_cursor` of the previous page")]
AsOf = Annotated[Moment | None, Query(description="the facts that Mnema knew at this time")]
ValidAt = Annotated[Moment | None, Query(description="what the user had stated by this time")]
_FACT = "/{fact_id:uuid}"
_CHANGED = {200: {"links": links.FACT}, **body_errors(404, 409)}


@router.post("", status_code=201, responses={201: {"links": links.FACTS_STORED}, **body_errors(409)})
async def store(app: App, principal: Writer, body: Statement, idempotency_key: IdempotencyHeader = None) -> StoredFacts:
    """Store facts of a user: those that a message of the user states, or given ones.

    A message that states no facts stores nothing. Retry with the same `Idempotency-Key` and body to store once.
    """
    key = retry_key("POST /facts", idempotency_key, body)
    place = to_place(body)
    if body.text is not None:
        outcome = await app.facts.store.store_text(principal, place, body.text, key)
    else:
        given = [to_new_fact(fact) for fact in body.facts or ()]
        outcome = await app.facts.store.store_values(principal, place, given, key)
    return stored_facts_body(outcome, body.model)


@router.post("/answer", responses={200: {"links": links.FACT_ANSWER}, **body_errors()})
async def answer(app: App, principal: Reader, body: FactQuestion) -> FactReply:
    """Answer an ordinal or list question, such as "What's my second favorite color?", from stored facts alone."""
    try:
        moments = Moments(body.as_of, body.valid_at)
        counted = await app.facts.answer.answer_question(principal, body.user_id, body.thread_id, body.query, moments)
    except DatabaseUnavailable as error:
        error.extra |= _failure(body)
        raise
    return fact_reply_body(counted.answer, body)


def _failure(body: FactQuestion) -> dict[str, object]:
    """Return the label and meta for a chat that goes on without memory. They have the counts so far."""
    actions = replace(to_actions(body.memory_actions or ActionsSoFar()), failed=True)
    fields = label_and_meta(actions, body)
    return {"model_label": fields["model_label"], "meta": fields["meta"].model_dump()}


@router.get("", responses={200: {"links": links.FACTS}, **key_errors()})
async def page(
    app: App,
    principal: Reader,
    user_id: Annotated[Identifier, Query()],
    thread_id: Annotated[Identifier | None, Query()] = None,
    topic_key: Annotated[TopicKey | None, Query()] = None,
    as_of: AsOf = None,
    valid_at: ValidAt = None,
    where: Annotated[WhereText | None, Query()] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Cursor = None,
) -> FactPage:
    """List a user's facts by topic, thread and rank.

    With a cursor, name `where` again; the cursor keeps `as_of` and `valid_at`.
    """
    filters = FactFilter(user_id, thread_id, topic_key, where=read_where(where, WHERE_FIELDS))
    found = await app.facts.read.list_facts(principal, filters, cursor, limit, Moments(as_of, valid_at))
    return FactPage(items=[fact_body(fact) for fact in found.items], next_cursor=found.next_cursor)


@router.get(_FACT, responses={200: {"links": links.FACT}, **key_errors(404)})
async def get(app: App, principal: Reader, fact_id: UUID, as_of: AsOf = None, valid_at: ValidAt = None) -> Fact:
    """Return one fact, with `as_of` or `valid_at` as it was at that time."""
    return fact_body(await app.facts.read.get_fact(principal, fact_id, Moments(as_of, valid_at)))


@router.patch(_FACT, responses=_CHANGED)
async def patch(
    app: App, principal: Writer, fact_id: UUID, body: NewValue, idempotency_key: IdempotencyHeader = None
) -> Fact:
    """Give a fact another value."""
    key = retry_key("PATCH /facts", idempotency_key, fact_id, body)
    return fact_body(await app.facts.store.change_value(principal, fact_id, body.value, key))


@router.delete(_FACT, response_model=Fact, responses={**_CHANGED, 204: {"description": "Purged"}})
async def delete(
    app: App,
    principal: Writer,
    fact_id: UUID,
    purge: Annotated[bool, Query(description="delete the fact and its values for good; needs scope admin")] = False,
    idempotency_key: IdempotencyHeader = None,
) -> Fact | Response:
    """Remove a fact and return it. The other ranks of its list stay as they are, and history keeps a record."""
    key = retry_key("DELETE /facts", idempotency_key, fact_id, str(purge))
    if not purge:
        return fact_body(await app.facts.store.remove_fact(principal, fact_id, key))
    require_scope(principal, "admin")
    await app.facts.store.purge_fact(principal, fact_id)
    return Response(status_code=204)


@router.get(_FACT + "/history", responses={200: {"links": links.FACT_HISTORY}, **key_errors(404)})
async def history(
    app: App, principal: Reader, fact_id: UUID, limit: Annotated[Limit, Query()] = 50, cursor: Cursor = None
) -> HistoryPage:
    """List every change of a fact, newest first."""
    rows, next_cursor = await app.facts.read.list_history(principal, fact_id, cursor, limit)
    return HistoryPage(items=[HistoryEntry.model_validate(row) for row in rows], next_cursor=next_cursor)


@router.get("/{topic_key}/{rank:rank}", responses={200: {"links": links.FACT}, **key_errors(404)})
async def at_rank(
    app: App,
    principal: Reader,
    topic_key: Annotated[TopicKey, Path()],
    rank: Annotated[int, Path(ge=0, le=999_999_999)],
    user_id: Annotated[Identifier, Query()],
    thread_id: Annotated[Identifier | None, Query()] = None,
    as_of: AsOf = None,
    valid_at: ValidAt = None,
) -> Fact:
    """Return the fact at a rank of a user's list in a thread; without `thread_id`, of the facts without a thread."""
    moments = Moments(as_of, valid_at)
    return fact_body(await app.facts.read.get_fact_at(principal, user_id, thread_id, topic_key, rank, moments))
