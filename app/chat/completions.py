"""Routes of chat clients: POST /v1/chat/completions and GET /v1/models (`docs/chat.md`)."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from app.api.deps import App, Chatter
from app.api.errors import openapi_errors
from app.api.transport.direct import JSON
from app.api.transport.events import EVENTS, run_while_connected
from app.api.transport.idempotency import IdempotencyHeader, retry_key
from app.api.transport.parameters import StrictRoute
from app.bootstrap import Application
from app.chat.forwarding import ForwardedStream, is_event_stream
from app.config.version import VERSION
from app.domain.chat.answer import OwnAnswer, add_members, read_plain_answer
from app.domain.chat.request import read_chat_request
from app.ports import UpstreamReply
from app.usecases.chat.chat import Chat
from app.usecases.chat.upstreams import MAX_AUTHORIZATION
from app.usecases.offload import offload_if_large

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
PASSED = "openai-"
"""The beginning of the names of the request headers that an upstream gets."""
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
    body = await request.body()
    asked = await offload_if_large(len(body), read_chat_request, body)
    key = retry_key(f"POST {PATH}", idempotency_key, lambda: asked.raw)
    chat = await app.chat.memory.begin_chat(principal, asked, key)
    if chat.answer is not None:
        return await _answer_from_facts(app, chat, chat.answer.text)
    upstream = await app.chat.upstreams.find_upstream(principal, upstream_key)
    content = await offload_if_large(len(body), chat.forwarded_body)
    call = app.chat.client.open_call(upstream, "POST", "/chat/completions", _forwarded_headers(request), content)
    return await run_while_connected(request.receive, _forward(app, chat, call))


@router.get("/models", responses={**MODELS_RESPONSES, **openapi_errors(401, 403, 422, 502, 503, 504)})
async def models(request: Request, app: App, principal: Chatter, upstream_key: UpstreamKey = None) -> Response:
    """List the upstream's models."""
    upstream = await app.chat.upstreams.find_upstream(principal, upstream_key)
    call = app.chat.client.open_call(upstream, "GET", "/models", _forwarded_headers(request))
    return await run_while_connected(request.receive, _pass_whole(call))


async def _answer_from_facts(app: Application, chat: Chat, text: str) -> Response:
    await _record(app, chat, text)
    asked = chat.request
    answer = OwnAnswer(
        f"chatcmpl-{uuid.uuid4().hex}", int(chat.created_at.timestamp()), asked.model, text, asked.choices
    )
    if asked.stream:
        events = answer.as_events(chat.added_members(), include_usage=asked.include_usage)
        return Response(events, media_type=EVENTS)
    return Response(answer.as_completion(chat.added_members()), media_type=JSON)


async def _record(app: Application, chat: Chat, text: str) -> None:
    """Store an answer. A client that goes away meanwhile does not stop it."""
    recording = asyncio.ensure_future(app.chat.memory.record_answer(chat, text))
    await asyncio.shield(recording)


def _forwarded_headers(request: Request) -> list[tuple[str, str]]:
    """Return the headers for the upstream. Credentials, cookies and addresses of the caller never are among them."""
    passed = [(name, value) for name, value in request.headers.items() if name.startswith(PASSED)]
    accept = request.headers.get("accept", "*/*")
    return [("Accept", accept), ("Content-Type", JSON), ("User-Agent", f"mnema/{VERSION}"), *passed]


async def _pass_whole(call: Coroutine[Any, Any, UpstreamReply]) -> Response:
    reply = await call
    try:
        return await _read_whole(reply, reply.stream_body())
    finally:
        await reply.close()


async def _forward(app: Application, chat: Chat, call: Coroutine[Any, Any, UpstreamReply]) -> Response:
    """Return the answer of the upstream. A refusal keeps its status and body."""
    reply = await call
    streams = False
    try:
        chunks = reply.stream_body()
        if not 200 <= reply.status < 300:
            return await _read_whole(reply, chunks)
        first = await anext(chunks, b"")
        if is_event_stream(dict(reply.headers).get("content-type", ""), first):
            streams = True
            return ForwardedStream(
                app.chat.memory, chat, reply, chunks, first, app.parts.policies.defaults.write.text_limits.turn
            )
        whole = await _read_whole(reply, chunks, first)
        return await _add_memory(app, chat, whole)
    finally:
        if not streams:
            await reply.close()


async def _read_whole(reply: UpstreamReply, chunks: AsyncIterator[bytes], first: bytes = b"") -> Response:
    parts = [first]
    async for chunk in chunks:
        parts.append(chunk)
    return Response(b"".join(parts), reply.status, dict(reply.headers))


async def _add_memory(app: Application, chat: Chat, whole: Response) -> Response:
    """Store what the assistant said, and add Mnema's members. An answer of another shape stays as it is."""
    body = bytes(whole.body)
    text = await offload_if_large(len(body), read_plain_answer, body)
    if text is None:
        return whole
    await _record(app, chat, text)
    headers = {name: value for name, value in whole.headers.items() if name != "content-length"}
    return Response(add_members(body, chat.added_members()), whole.status_code, headers)
