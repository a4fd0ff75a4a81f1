"""Calls of an upstream that pass through unchanged, without memory."""

from fastapi import Request, Response

from app.api.transport.events import run_while_connected
from app.bootstrap import Application
from app.chat.conversing import Call, forwarded_headers, read_whole
from app.chat.forwarding import PassedStream, is_event_stream
from app.domain.chat.dialect import Dialect
from app.domain.principal import Principal


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
