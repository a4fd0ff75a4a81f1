"""The upstream's server: real HTTP on loopback."""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.fake_llm.wire import Message
from tests.loopback import loopback
from tests.scripted_upstream.answers import answer_of
from tests.scripted_upstream.dialects import WIRES, Wire, counted, embeddings_of, prompted
from tests.scripted_upstream.faults import Fault, refusal_of
from tests.scripted_upstream.received import Received, Watched
from tests.scripted_upstream.sending import (
    dump_compact,
    events_of,
    plain_bytes,
    plain_pieces,
    stream_pieces,
    write_event,
)

MODELS = {
    "object": "list",
    "data": [
        {"id": "scripted-1", "object": "model", "created": 1, "owned_by": "scripted"},
        {"id": "scripted-größer", "object": "model", "created": 2, "owned_by": "scripted", "context_length": 8192},
    ],
}
ANY_CHAT = {"model": "any", "messages": [{"role": "user", "content": ""}]}
PASSED = {
    "/v1/embeddings": embeddings_of,
    "/v1/completions": prompted,
    "/v1/messages/count_tokens": counted,
}
Answering = Callable[[Request], Awaitable[Response]]
JSON, STREAM = {"content-type": "application/json"}, {"content-type": "text/event-stream; charset=utf-8"}


@dataclass
class ScriptedUpstream:
    """The running server.

    `log` holds every request as it arrived, in order. `faults` are used in order, one a request, then `always`.
    `answers` are used in order, one for each answer that is given, then `rule`. `pause_s` is the pause after each event
    of a stream, `drip_s` that after each byte under DRIP. `reading` returns the body that the model reads, in place of
    the one that arrived. `log_file` gets a line of JSON for each request that is over.
    """

    base_url: str = ""
    log: list[Received] = field(default_factory=list)
    faults: deque[Fault] = field(default_factory=deque)
    always: Fault = Fault.NONE
    answers: deque[Message] = field(default_factory=deque)
    rule: Callable[[dict[str, Any]], Message] = answer_of
    reading: Callable[[dict[str, Any]], dict[str, Any]] = lambda body: body
    takes_anything: bool = False
    """True: a body that is no chat gets an answer, too."""
    pause_s: float = 0.0
    drip_s: float = 0.05
    redirected_to: str = "http://elsewhere.invalid/v1/chat/completions"
    log_file: Path | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _arrival: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def chats(self) -> list[Received]:
        """The requests for an answer, without those for models."""
        paths = {wire.path for wire in WIRES}
        return [received for received in self.log if received.path in paths]

    async def wait_for_requests(self, count: int, timeout_s: float = 60) -> None:
        """Return when so many requests have arrived; raise TimeoutError if they do not."""
        async with asyncio.timeout(timeout_s), self._arrival:
            await self._arrival.wait_for(lambda: len(self.log) >= count)

    async def list_models(self, request: Request) -> Response:
        """Answer GET /v1/models. Faults of an answer are those of one that is not streamed.

        A key in `x-api-key` makes it a request of Anthropic's API.
        """
        received, fault = await self._receive(request, needs_version="x-api-key" in request.headers)
        return self._refuse(received, fault) or self._send_plain(received, dump_compact(MODELS).encode(), fault)

    def answering(self, wire: Wire) -> Answering:
        """Return the endpoint of a chat API."""

        async def answer(request: Request) -> Response:
            received, fault = await self._receive(request, needs_version=wire.needs_version)
            number = len(self.chats)
            if refused := self._refuse(received, fault, wire.error(fault)):
                return refused
            arrived = _readable_body(received.body)
            try:
                read = wire.read_request(self.reading(arrived)) if arrived else None
            except (KeyError, TypeError, AttributeError, IndexError):  # a message of another shape
                read = None
            body = read or (ANY_CHAT if self.takes_anything else None)
            if body is None:
                return self._refuse(received, Fault.REFUSED, wire.error(Fault.REFUSED)) or Response()
            said = self.answers.popleft() if self.answers else self.rule(body)
            streams = {Fault.NOT_STREAMED: False, Fault.STREAMED: True}.get(fault, bool(body.get("stream")))
            if not streams:
                return self._send_plain(received, plain_bytes(wire, body, said, number, fault), fault)
            events = events_of(wire, body, said, number, fault)
            pieces = stream_pieces(wire, events, fault, self.stopping, self.drip_s, self.pause_s)
            return Watched(received, pieces, _headers_of(STREAM, fault), self._report)

        return answer

    def passing(self, rule: Callable[[dict[str, Any]], dict[str, Any]]) -> Answering:
        """Return the endpoint of an API without chats. A stream has the whole answer in each of two events."""

        async def answer(request: Request) -> Response:
            received, fault = await self._receive(request, needs_version=rule is counted)
            if refused := self._refuse(received, fault):
                return refused
            if self.takes_anything and _readable_body(received.body) is None:
                return self._send_plain(received, b"{}", fault)
            try:
                body = received.json
                told = rule(body)
            except (ValueError, RecursionError, KeyError, TypeError, AttributeError):  # no JSON, or of another shape
                if self.takes_anything:
                    return self._send_plain(received, b"{}", fault)
                return self._refuse(received, Fault.REFUSED) or Response()
            if not body.get("stream"):
                return self._send_plain(received, dump_compact(told).encode(), fault)
            events = map(write_event, [(None, told), (None, told), (None, "[DONE]")])
            pieces = stream_pieces(WIRES[0], events, fault, self.stopping, self.drip_s, self.pause_s)
            return Watched(received, pieces, _headers_of(STREAM, fault), self._report)

        return answer

    async def _receive(self, request: Request, *, needs_version: bool) -> tuple[Received, Fault]:
        """Note a request. Return the fault that it meets: REFUSED if Anthropic's API would miss its version."""
        fault = self.faults.popleft() if self.faults else self.always
        if needs_version and "anthropic-version" not in request.headers:
            fault = Fault.REFUSED
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        path = request.scope["raw_path"].decode("latin-1")
        received = Received(request.method, path, request.url.query, headers, await request.body(), fault=fault.name)
        async with self._arrival:
            self.log.append(received)
            self._arrival.notify_all()
        return received, fault

    def _refuse(self, received: Received, fault: Fault, body: dict[str, Any] | None = None) -> Response | None:
        response = refusal_of(fault, self.redirected_to, body)
        if response:
            received.status, received.chunks, received.sent = response.status_code, 1, len(response.body)
            received.ended_at = time.monotonic()
            self._report(received)
        return response

    def _send_plain(self, received: Received, answer: bytes, fault: Fault) -> Response:
        headers = _headers_of(JSON, fault)
        if fault is not Fault.GZIP:
            headers["content-length"] = str(len(answer))
        return Watched(received, plain_pieces(answer, fault, self.stopping, self.drip_s), headers, self._report)

    def _report(self, received: Received) -> None:
        received.over.set()
        if self.log_file:
            with self.log_file.open("a") as file:
                print(json.dumps(received.row, ensure_ascii=False), file=file)


def _headers_of(usual: dict[str, str], fault: Fault) -> dict[str, str]:
    headers = usual | {"x-request-id": "req_scripted", "openai-processing-ms": "1"}
    if fault is Fault.GZIP:
        headers["content-encoding"] = "gzip"
    if fault is Fault.JSON_AS_TEXT:
        headers["content-type"] = "text/plain; charset=utf-8"
    return headers


def _readable_body(body: bytes) -> dict[str, Any] | None:
    """Return the request's JSON, or None without a model."""
    try:
        read = json.loads(body)
    except ValueError:
        return None
    return read if isinstance(read, dict) and isinstance(read.get("model"), str) else None


def routes_of(upstream: ScriptedUpstream) -> list[Route]:
    """Return the routes of the server."""
    return [
        *(Route(wire.path, upstream.answering(wire), methods=["POST"]) for wire in WIRES),
        *(Route(path, upstream.passing(rule), methods=["POST"]) for path, rule in PASSED.items()),
        Route("/v1/models", upstream.list_models, methods=["GET"]),
    ]


@asynccontextmanager
async def scripted_upstream(*answers: Message, port: int = 0) -> AsyncIterator[ScriptedUpstream]:
    """Run a server on this port, or on a free one; at the end stop it together with every request that hangs in it."""
    upstream = ScriptedUpstream(answers=deque(answers))
    async with loopback(routes_of(upstream), upstream.stopping, port) as url:
        upstream.base_url = f"{url}/v1"
        yield upstream
