"""GET /v1/models: the models of all upstreams of a tenant, as one list."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog
from fastapi import Request, Response

from app.api.transport.direct import JSON
from app.bootstrap import Application
from app.chat.conversing import forwarded_headers, read_whole
from app.domain.chat.upstream import ANTHROPIC, OPENAI, UpstreamDialect
from app.domain.errors import MnemaError
from app.domain.principal import Principal
from app.usecases.offload import offload_if_large

log = structlog.get_logger(__name__)
_PATHS: Mapping[UpstreamDialect, str] = {OPENAI: "/models", ANTHROPIC: "/models?limit=1000"}
"""Anthropic's API lists 20 models unless it is asked for more."""


async def list_models(request: Request, app: Application, principal: Principal, upstream_key: str | None) -> Response:
    """Return the models of the tenant's upstreams.

    The answer of a single upstream passes as it is. Of several, those that fail are left out of the list, unless all
    do. A caller's own key belongs to one upstream: Anthropic's for a client that names `anthropic-version`.
    """
    dialects = await app.chat.upstreams.list_dialects(principal) or [OPENAI]
    if upstream_key is not None and len(dialects) > 1:
        dialects = [ANTHROPIC if "anthropic-version" in request.headers else OPENAI]
    if len(dialects) == 1:
        return await _ask_upstream(dialects[0], request, app, principal, upstream_key)
    answers: list[Response] = []
    lists: list[Sequence[Any]] = []
    failed: MnemaError | None = None
    for dialect in dialects:
        try:
            answer = await _ask_upstream(dialect, request, app, principal, upstream_key)
        except MnemaError as error:
            log.warning("models_of_upstream_failed", dialect=dialect, code=error.code)
            failed = error
            continue
        answers.append(answer)
        found = await offload_if_large(len(answer.body), _read_list, bytes(answer.body))
        if found is not None:
            lists.append(found)
    if lists:
        return Response(_merge_lists(lists), media_type=JSON)
    if answers:
        return answers[0]
    raise failed or MnemaError()


async def _ask_upstream(
    dialect: UpstreamDialect, request: Request, app: Application, principal: Principal, upstream_key: str | None
) -> Response:
    upstream = await app.chat.upstreams.find_upstream(principal, upstream_key, dialect)
    headers = forwarded_headers(request, dialect)
    reply = await app.chat.client.open_call(upstream, "GET", _PATHS[dialect], headers)
    try:
        return await read_whole(reply, reply.stream_body())
    finally:
        await reply.close()


def _read_list(body: bytes) -> Sequence[Any] | None:
    """Return the models of an answer, None if it is no list of models."""
    try:
        models = json.loads(body)["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return models if isinstance(models, list) else None


def _merge_lists(lists: Sequence[Sequence[Any]]) -> bytes:
    """Return one list in the shapes of both APIs: each client finds the members that it knows."""
    models = [_complete_model(model) for models in lists for model in models if isinstance(model, dict)]
    ids = [model.get("id") for model in models]
    listed = {"object": "list", "data": models, "has_more": False}
    places = {"first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
    return json.dumps(listed | places, ensure_ascii=False, separators=(",", ":")).encode()


def _complete_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model with the members that one of the APIs lacks."""
    if model.get("type") == "model":
        added = {"object": "model", "created": _timestamp(model.get("created_at")), "owned_by": ANTHROPIC}
        return added | dict(model)
    return {"type": "model", "display_name": model.get("id")} | dict(model)


def _timestamp(moment: object) -> int:
    """Return an ISO moment in Unix seconds, 0 if it is none."""
    try:
        return int(datetime.fromisoformat(str(moment)).timestamp())
    except (ValueError, OverflowError):
        return 0
