"""Routes of Anthropic's clients (`docs/chat.md`)."""

from fastapi import APIRouter, Request, Response

from app.api.deps import App, Chatter
from app.api.transport.idempotency import IdempotencyHeader
from app.api.transport.parameters import StrictRoute
from app.chat import documents
from app.chat.conversing import converse, write_query
from app.chat.documents import Beta, UpstreamKey
from app.chat.passing import pass_through
from app.domain.chat.dialects.messages import MESSAGES

router = APIRouter(prefix="/v1", tags=["chat"], route_class=StrictRoute)
PATHS = ("/v1/messages", "/v1/messages/count_tokens")
"""The paths that take a body."""


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
