"""Routes of OpenAI's and Anthropic's clients: chats with memory, and what passes through (`docs/chat.md`)."""

from fastapi import APIRouter, Request, Response

from app.api.deps import App, Chatter
from app.api.transport.events import run_while_connected
from app.api.transport.idempotency import IdempotencyHeader
from app.api.transport.parameters import StrictRoute
from app.bootstrap import Application
from app.chat import documents
from app.chat.conversing import Call, converse, forwarded_headers, read_whole, write_query
from app.chat.documents import Beta, PagePlace, PageSize, UpstreamKey
from app.chat.forwarding import PassedStream, is_event_stream
from app.chat.models import ModelPage, list_models
from app.domain.chat.dialect import Dialect
from app.domain.chat.dialects.completions import CHAT_COMPLETIONS
from app.domain.chat.dialects.messages import MESSAGES
from app.domain.chat.dialects.responses import RESPONSES
from app.domain.principal import Principal

router = APIRouter(prefix="/v1", tags=["chat"], route_class=StrictRoute)
PASSED = ("/v1/embeddings", "/v1/completions")
PATHS = ("/v1/chat/completions", "/v1/responses", *PASSED, "/v1/messages", "/v1/messages/count_tokens")
"""The paths that take a body."""


@router.post(
    "/chat/completions",
    openapi_extra=documents.COMPLETION_BODY,
    responses=documents.CHAT_RESPONSES,
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


@router.post(
    "/responses",
    openapi_extra=documents.RESPONSE_BODY,
    responses=documents.CHAT_RESPONSES,
)
async def respond(
    request: Request,
    app: App,
    principal: Chatter,
    idempotency_key: IdempotencyHeader = None,
    upstream_key: UpstreamKey = None,
) -> Response:
    """Answer as OpenAI's Responses API does, with memory.

    It works as `POST /v1/chat/completions` does. A stream has Mnema's members in the response of its last event.
    """
    return await converse(RESPONSES, request, app, principal, idempotency_key, upstream_key)


@router.post(
    "/embeddings",
    openapi_extra=documents.EMBEDDING_BODY,
    responses=documents.PASSED_RESPONSES,
)
async def embed(request: Request, app: App, principal: Chatter, upstream_key: UpstreamKey = None) -> Response:
    """Pass a request for embeddings to the upstream, unchanged and without memory."""
    return await pass_through(CHAT_COMPLETIONS, "/embeddings", request, app, principal, upstream_key)


@router.post(
    "/completions",
    openapi_extra=documents.PROMPT_BODY,
    responses=documents.PASSED_RESPONSES,
)
async def complete_prompt(request: Request, app: App, principal: Chatter, upstream_key: UpstreamKey = None) -> Response:
    """Pass a prompt to the upstream's older completions, unchanged and without memory."""
    return await pass_through(CHAT_COMPLETIONS, "/completions", request, app, principal, upstream_key)


@router.get("/models", responses=documents.MODELS_RESPONSES)
async def models(
    request: Request,
    app: App,
    principal: Chatter,
    upstream_key: UpstreamKey = None,
    limit: PageSize = None,
    after_id: PagePlace = None,
    before_id: PagePlace = None,
    beta: Beta = None,
) -> Response:
    """List the models of the upstreams.

    With `after_id` or `before_id` it has Anthropic's models alone, because only Anthropic's API has pages.
    """
    asked = ModelPage(limit, after_id, before_id, beta)
    return await run_while_connected(request.receive, list_models(request, app, principal, upstream_key, asked))


@router.post(
    "/messages",
    openapi_extra=documents.MESSAGE_BODY,
    responses=documents.CHAT_RESPONSES,
)
async def create_message(
    request: Request,
    app: App,
    principal: Chatter,
    idempotency_key: IdempotencyHeader = None,
    upstream_key: UpstreamKey = None,
    beta: Beta = None,
) -> Response:
    """Answer as Anthropic's Messages API does, with memory.

    It works as `POST /v1/chat/completions` does, with an upstream of its own. The API key may also come in the header
    `x-api-key`. A stream has Mnema's members in its event `message_stop`.
    """
    query = write_query(beta=beta)
    return await converse(MESSAGES, request, app, principal, idempotency_key, upstream_key, query)


@router.post(
    "/messages/count_tokens",
    openapi_extra=documents.COUNT_BODY,
    responses=documents.PASSED_RESPONSES,
)
async def count_tokens(
    request: Request, app: App, principal: Chatter, upstream_key: UpstreamKey = None, beta: Beta = None
) -> Response:
    """Count the tokens of a message at the upstream, unchanged and without memory."""
    path = "/messages/count_tokens" + write_query(beta=beta)
    return await pass_through(MESSAGES, path, request, app, principal, upstream_key)


async def pass_through(
    dialect: Dialect, path: str, request: Request, app: Application, principal: Principal, upstream_key: str | None
) -> Response:
    """Return the upstream's answer to the body of a request, streamed as it comes."""
    upstream = await app.chat.upstreams.find_upstream(principal, upstream_key, dialect.upstream)
    headers = forwarded_headers(request, dialect.upstream)
    call = app.chat.client.open_call(upstream, "POST", path, headers, await request.body())
    return await run_while_connected(request.receive, _forward(dialect, call))


async def _forward(dialect: Dialect, call: Call) -> Response:
    reply = await call
    streams = False
    try:
        chunks = reply.stream_body()
        first = await anext(chunks, b"")
        kind = dict(reply.headers).get("content-type", "")
        streams = 200 <= reply.status < 300 and is_event_stream(kind, first)
        if streams:
            return PassedStream(dialect, reply, chunks, first)
        return await read_whole(reply, chunks, first)
    finally:
        if not streams:
            await reply.close()
