"""A chat with memory, from the request to the answer, in any dialect."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Coroutine
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response

from app.api.transport.direct import JSON
from app.api.transport.events import EVENTS, run_while_connected
from app.api.transport.idempotency import retry_key
from app.bootstrap import Application
from app.chat.forwarding import ForwardedStream, is_event_stream
from app.config.version import VERSION
from app.domain.chat.answer import read_plain_answer
from app.domain.chat.conversation import read_user_headers
from app.domain.chat.dialect import Dialect, OwnAnswer
from app.domain.chat.members import add_members
from app.domain.chat.request import read_chat_request
from app.domain.chat.upstream import ANTHROPIC, OPENAI, UpstreamDialect
from app.domain.principal import Principal
from app.ports import UpstreamReply
from app.usecases.chat.chat import Chat
from app.usecases.offload import offload_if_large

PASSED: dict[UpstreamDialect, str] = {OPENAI: "openai-", ANTHROPIC: "anthropic-"}
"""The beginning of the names of the request headers that an upstream of each dialect gets."""
Call = Coroutine[Any, Any, UpstreamReply]


async def converse(
    dialect: Dialect,
    request: Request,
    app: Application,
    principal: Principal,
    idempotency_key: str | None,
    upstream_key: str | None,
    query: str = "",
) -> Response:
    """Answer a chat with memory: from stored facts, or by the upstream, whose path `query` follows.

    The user's message is stored first, and the answer when it is complete.
    """
    body = await request.body()
    users = read_user_headers(request.headers.items())
    asked = await offload_if_large(len(body), read_chat_request, body, dialect, users)
    key = retry_key(f"POST /v1{dialect.path}", idempotency_key, lambda: asked.raw)
    chat = await app.chat.memory.begin_chat(principal, asked, key)
    if chat.answer is not None:
        return await _answer_from_facts(dialect, app, chat, chat.answer.text)
    upstream = await app.chat.upstreams.find_upstream(principal, upstream_key, dialect.upstream)
    content = await offload_if_large(len(body), chat.forwarded_body)
    headers = forwarded_headers(request, dialect.upstream)
    call = app.chat.client.open_call(upstream, "POST", dialect.path + query, headers, content)
    return await run_while_connected(request.receive, _forward(dialect, app, chat, call))


def write_query(**given: object) -> str:
    """Return the parameters that are not None as a query string with its `?`; an empty one if there are none."""
    named = {name: value for name, value in given.items() if value is not None}
    return f"?{urlencode(named)}" if named else ""


def forwarded_headers(request: Request, dialect: UpstreamDialect) -> list[tuple[str, str]]:
    """Return the headers for the upstream. Credentials, cookies and addresses of the caller never are among them."""
    passed = [(name, value) for name, value in request.headers.items() if name.startswith(PASSED[dialect])]
    accept = request.headers.get("accept", "*/*")
    return [("Accept", accept), ("Content-Type", JSON), ("User-Agent", f"mnema/{VERSION}"), *passed]


async def read_whole(reply: UpstreamReply, chunks: AsyncIterator[bytes], first: bytes = b"") -> Response:
    """Return an answer with its status and headers, read to its end. `first` was read already."""
    parts = [first]
    async for chunk in chunks:
        parts.append(chunk)
    return Response(b"".join(parts), reply.status, dict(reply.headers))


async def _answer_from_facts(dialect: Dialect, app: Application, chat: Chat, text: str) -> Response:
    await _record(app, chat, text)
    asked = chat.request
    created = int(chat.created_at.timestamp())
    answer = OwnAnswer(uuid.uuid4().hex, created, asked.model, text, asked.choices, asked.include_usage)
    if asked.stream:
        return Response(dialect.write_events(answer, chat.added_members()), media_type=EVENTS)
    return Response(dialect.write_answer(answer, chat.added_members()), media_type=JSON)


async def _record(app: Application, chat: Chat, text: str, *, incomplete: bool = False) -> None:
    """Store an answer. A client that goes away meanwhile does not stop it."""
    recording = asyncio.ensure_future(app.chat.memory.record_answer(chat, text, incomplete=incomplete))
    await asyncio.shield(recording)


async def _forward(dialect: Dialect, app: Application, chat: Chat, call: Call) -> Response:
    """Return the answer of the upstream. A refusal keeps its status and body."""
    reply = await call
    streams = False
    try:
        chunks = reply.stream_body()
        if not 200 <= reply.status < 300:
            return await read_whole(reply, chunks)
        first = await anext(chunks, b"")
        if is_event_stream(dict(reply.headers).get("content-type", ""), first):
            streams = True
            most_text = app.parts.policies.defaults.write.text_limits.turn
            return ForwardedStream(dialect, app.chat.memory, chat, reply, chunks, first, most_text)
        whole = await read_whole(reply, chunks, first)
        return await _add_memory(dialect, app, chat, whole)
    finally:
        if not streams:
            await reply.close()


async def _add_memory(dialect: Dialect, app: Application, chat: Chat, whole: Response) -> Response:
    """Store what the assistant said, and add Mnema's members. An answer of another shape stays as it is."""
    body = bytes(whole.body)
    answer = await offload_if_large(len(body), read_plain_answer, body, dialect)
    if answer is None:
        return whole
    await _record(app, chat, answer.text, incomplete=not answer.is_complete)
    headers = {name: value for name, value in whole.headers.items() if name != "content-length"}
    return Response(add_members(body, chat.added_members()), whole.status_code, headers)
