"""Routes of /store: values of agents by namespace and key."""

from datetime import timedelta
from typing import Any

import orjson
from fastapi import APIRouter, Response
from mnema_wire import store as wire

from app.api.deps import AnyPrincipal, App, require_scope
from app.api.errors import body_errors
from app.api.transport.parameters import StrictRoute
from app.domain.agent_state import store_items as domain

router = APIRouter(prefix="/store", tags=["store"], route_class=StrictRoute)


def to_batch(body: wire.BatchIn) -> domain.Batch:
    """Return the operations."""
    return domain.Batch(
        gets=tuple(domain.GetItem(tuple(get.namespace), get.key, get.refresh_ttl) for get in body.gets),
        searches=tuple(map(_to_search, body.searches)),
        lists=tuple(map(_to_list, body.lists)),
        puts=tuple(map(_to_put, body.puts)),
    )


def _to_search(body: wire.SearchIn) -> domain.SearchItems:
    return domain.SearchItems(tuple(body.prefix), body.filter, body.limit, body.offset, body.query, body.refresh_ttl)


def _to_list(body: wire.NamespaceListIn) -> domain.ListNamespaces:
    conditions = tuple(domain.Condition(c.where, tuple(c.path)) for c in body.conditions)
    return domain.ListNamespaces(conditions, body.max_depth, body.limit, body.offset)


def _to_put(body: wire.PutIn) -> domain.PutItem:
    ttl = None if body.ttl_minutes is None else timedelta(minutes=body.ttl_minutes)
    return domain.PutItem(tuple(body.namespace), body.key, body.value, tuple(body.index), ttl, body.user_id)


def render_batch(answer: domain.BatchAnswer) -> bytes:
    """Return the JSON of a BatchOut. Stored values are copied into it as they are."""
    fields = {
        "gets": [None if item is None else _item_fields(item) for item in answer.gets],
        "searches": [
            [_item_fields(found.item) | {"score": found.score} for found in search] for search in answer.searches
        ],
        "lists": answer.lists,
    }
    return orjson.dumps(fields, option=orjson.OPT_UTC_Z)


def _item_fields(item: domain.StoreItem) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": orjson.Fragment(item.value),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


@router.post("/batch", response_model=wire.BatchOut, responses=body_errors())
async def batch(app: App, principal: AnyPrincipal, body: wire.BatchIn) -> Response:
    """Get, search, list and put items in one transaction. `MnemaStore`, the store for LangGraph, uses this route.

    Reads need scope `query`, puts scope `write`. Items have no category, so a key that is bound to agents is refused.
    Puts are idempotent.
    """
    if body.gets or body.searches or body.lists:
        require_scope(principal, "query")
    if body.puts:
        require_scope(principal, "write")
    return Response(
        render_batch(await app.agent_state.store_items.run_batch(principal, to_batch(body))),
        media_type="application/json",
    )
