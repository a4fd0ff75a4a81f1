"""Routes of chat clients: POST /v1/chat/completions and GET /v1/models (`docs/chat.md`)."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from app.api.deps import App, Chatter
from app.api.errors import openapi_errors
from app.api.transport.events import run_while_connected
from app.api.transport.idempotency import IdempotencyHeader
from app.api.transport.parameters import StrictRoute
from app.chat.conversing import Call, converse, forwarded_headers, read_whole
from app.domain.chat.dialects.completions import CHAT_COMPLETIONS
from app.usecases.chat.upstreams import MAX_AUTHORIZATION

_FIELDS: dict[str, Any] = {
    "model": {"type": "string", "description": "passed to the upstream"},
    "messages": {"type": "array", "items": {"type": "object"}, "description": "passed to the upstream"},
    "stream": {"type": "boolean"},
    "user": {"type": ["string", "null"], "description": "the remembered user; default: one of the key's own"},
    "memory_id": {"type": ["string", "null"], "description": "the conversation; default `default`"},
    "memory_top_k": {"type": ["integer", "null"], "maximum": 50, "description": "memories put before the message"},
    "memory_recency_weight": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    "memory_score_threshold": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
}
_EXAMPLE = {
    "model": "gpt-5",
    "user": "maya",
    "memory_id": "launch",
    "messages": [{"role": "user", "content": "What did we decide about the demo?"}],
}
COMPLETION_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {"schema": {"type": "object", "properties": _FIELDS, "examples": [_EXAMPLE]}},
    },
}
_ANY: dict[str, Any] = {"schema": {}}
_UPSTREAM_ERROR = {"description": "An error of the upstream, with its own status and body", "content": {"*/*": _ANY}}
COMPLETION_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The upstream's answer with `memory_hits`, `model_label` and `meta`",
        "content": {"application/json": _ANY, "text/event-stream": _ANY},
    },
    "default": _UPSTREAM_ERROR,
}
MODELS_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The upstream's models", "content": {"application/json": _ANY}},
    "default": _UPSTREAM_ERROR,
}


router = APIRouter(prefix="/v1", tags=["chat"], route_class=StrictRoute)
PATH = "/v1/chat/completions"
UpstreamKey = Annotated[
    str | None,
    Header(
        alias="X-Upstream-Authorization",
        description="the caller's own key for the upstream, with its scheme",
        min_length=1,
        max_length=MAX_AUTHORIZATION,
        pattern="^[ -~]+$",
    ),
]


@router.post(
    "/chat/completions",
    openapi_extra={"requestBody": COMPLETION_BODY},
    responses={**COMPLETION_RESPONSES, **openapi_errors(400, 401, 403, 409, 413, 422, 502, 503, 504)},
)
async def complete(
    request: Request,
    app: App,
    principal: Chatter,
    idempotency_key: IdempotencyHeader = None,
    upstream_key: UpstreamKey = None,
) -> Response:
    """Answer a chat as OpenAI's API does, with memory: from stored facts, or by the upstream.

    The user's message is stored first, and the answer when it is complete. The answer has `memory_hits`, `model_label`
    and `meta` besides the upstream's own fields. Fields that are not Mnema's pass through untouched both ways.
    """
    return await converse(CHAT_COMPLETIONS, request, app, principal, idempotency_key, upstream_key)


@router.get("/models", responses={**MODELS_RESPONSES, **openapi_errors(401, 403, 422, 502, 503, 504)})
async def models(request: Request, app: App, principal: Chatter, upstream_key: UpstreamKey = None) -> Response:
    """List the upstream's models."""
    upstream = await app.chat.upstreams.find_upstream(principal, upstream_key)
    call = app.chat.client.open_call(upstream, "GET", "/models", forwarded_headers(request, "openai"))
    return await run_while_connected(request.receive, _pass_whole(call))


async def _pass_whole(call: Call) -> Response:
    reply = await call
    try:
        return await read_whole(reply, reply.stream_body())
    finally:
        await reply.close()
