"""Routes of OpenAI's and Anthropic's clients: chats with memory, and what passes through (`docs/chat.md`)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import structlog
from fastapi import APIRouter, Request, Response

from app.api.deps import App, Chatter
from app.api.transport.direct import JSON
from app.api.transport.events import run_while_connected
from app.api.transport.idempotency import IdempotencyHeader
from app.api.transport.parameters import StrictRoute
from app.bootstrap import Application
from app.chat import documents
from app.chat.conversing import Call, converse, forwarded_headers, read_whole, write_query
from app.chat.documents import Beta, PagePlace, PageSize, UpstreamKey
from app.chat.forwarding import PassedStream, is_event_stream
from app.domain.chat.dialect import Dialect
from app.domain.chat.dialects.completions import CHAT_COMPLETIONS
from app.domain.chat.dialects.messages import MESSAGES
from app.domain.chat.dialects.responses import RESPONSES
from app.domain.chat.members import dump_compact
from app.domain.chat.upstream import ANTHROPIC, OPENAI, UpstreamDialect
from app.domain.errors import MnemaError
from app.domain.principal import Principal
from app.usecases.chat.upstreams import ModelList, bound_models, read_models
from app.usecases.offload import offload_if_large

router = APIRouter(prefix="/v1", tags=["chat"], route_class=StrictRoute)
PASSED = ("/v1/embeddings", "/v1/completions")
PATHS = ("/v1/chat/completions", "/v1/responses", *PASSED, "/v1/messages", "/v1/messages/count_tokens")
"""The paths that take a body."""
log = structlog.get_logger(__name__)
_ALL = 1000
"""Anthropic's API lists 20 models unless it is asked for more, which may be as many as this."""


@dataclass(frozen=True, slots=True)
class ModelPage:
    """The part of Anthropic's models that a request asks for."""

    limit: int | None = None
    after_id: str | None = None
    before_id: str | None = None
    beta: str | None = None

    @property
    def has_place(self) -> bool:
        """True if it begins or ends at a certain model."""
        return bool(self.after_id or self.before_id)

    def write_path(self, dialect: UpstreamDialect) -> str:
        """Return the path at an upstream of a dialect."""
        return "/models" + (write_query(**asdict(self) | {"limit": self.limit or _ALL}) if dialect == ANTHROPIC else "")


async def list_models(
    request: Request, app: Application, principal: Principal, upstream_key: str | None, page: ModelPage
) -> Response:
    """Return the models of the tenant's upstreams.

    The answer of a single upstream passes as it is. Of several, those that fail are left out of the list, unless all
    do. A caller's own key belongs to one upstream: Anthropic's for a client that names `anthropic-version`.
    """
    dialects = await app.chat.upstreams.list_dialects(principal) or [OPENAI]
    if upstream_key is not None and len(dialects) > 1:
        dialects = [ANTHROPIC if "anthropic-version" in request.headers else OPENAI]
    if page.has_place and ANTHROPIC in dialects:
        dialects = [ANTHROPIC]
    if len(dialects) == 1:
        return await _ask_upstream(dialects[0], request, app, principal, upstream_key, page)
    answers: list[Response] = []
    lists: list[ModelList] = []
    failed: MnemaError | None = None
    for dialect in dialects:
        try:
            answer = await _ask_upstream(dialect, request, app, principal, upstream_key, page)
            found = await offload_if_large(len(answer.body), read_models, bytes(answer.body), dialect)
        except MnemaError as error:
            log.warning("models_of_upstream_failed", dialect=dialect, code=error.code)
            failed = error
            continue
        answers.append(answer)
        if found is not None:
            lists.append(found)
    if lists:
        size = sum(len(answer.body) for answer in answers)
        return Response(await offload_if_large(size, _merge_lists, lists), media_type=JSON)
    if answers:
        return answers[0]
    raise failed or MnemaError()


async def _ask_upstream(
    dialect: UpstreamDialect,
    request: Request,
    app: Application,
    principal: Principal,
    upstream_key: str | None,
    page: ModelPage,
) -> Response:
    upstream = await app.chat.upstreams.find_upstream(principal, upstream_key, dialect)
    headers = forwarded_headers(request, dialect)
    reply = await app.chat.client.open_call(upstream, "GET", page.write_path(dialect), headers)
    try:
        return await read_whole(reply, bound_models(reply.stream_body()))
    finally:
        await reply.close()


def _merge_lists(lists: Sequence[ModelList]) -> bytes:
    """Return one list in the shapes of both APIs: each client finds the members that it knows."""
    models = [_complete_model(model) for listed in lists for model in listed.models if isinstance(model, dict)]
    ids = [model.get("id") for model in models]
    merged = {"object": "list", "data": models, "has_more": any(listed.has_more for listed in lists)}
    places = {"first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
    return dump_compact(merged | places)


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
