"""An endpoint with OpenAI's chat API that answers at once with made-up words, as a process of its own.

    python -m bench.chat_upstream [--chunks 50] [--pause-ms 0] [--characters 400]

It prints its port. An answer is a stream of events if the request asks for one, each event in a chunk of its own. No
two answers are the same. SIGTERM ends the server.
"""

import argparse
import asyncio
import json
import random
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import uvloop
from starlette.types import Message, Receive, Scope, Send

from app.api.transport.startup import freeze_startup_objects
from bench import chat_workload
from bench.http_server import run_until_terminated

PREPARED = 256
"""The number of answers that are made before the first request."""
JSON, EVENTS = b"application/json", b"text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """The parts of a prepared answer, and its whole text."""

    parts: tuple[bytes, ...]
    text: str


class Endpoint:
    """The ASGI application. `pause_s` is the time between two chunks."""

    def __init__(self, chunks: int, pause_s: float, characters: int) -> None:
        self._pause_s = pause_s
        self._answers = [_prepare_answer(number, chunks, characters) for number in range(PREPARED)]
        self._numbers = count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or follow the lifespan protocol."""
        if scope["type"] == "lifespan":
            await follow_lifespan(receive, send)
        elif scope["method"] == "GET":
            await send_whole(send, b"{}")
        else:
            await self._answer_chat(json.loads(await read_body(receive)), send)

    async def _answer_chat(self, request: dict[str, Any], send: Send) -> None:
        number = next(self._numbers)
        answer = self._answers[number % PREPARED]
        if not request.get("stream"):
            message = {"role": "assistant", "content": f"{number}: {answer.text}"}
            usage = {"prompt_tokens": 60, "completion_tokens": 80, "total_tokens": 140}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            await send_whole(send, _dump({"id": "chatcmpl-bench", "object": "chat.completion"}, choices, usage=usage))
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", EVENTS)]})
        for part in (_event({"role": "assistant", "content": f"{number}: "}), *answer.parts, _event({}, "stop")):
            await send(_body_part(part))
            if self._pause_s:
                await asyncio.sleep(self._pause_s)
        await send(_body_part(DONE, more=False))


def _prepare_answer(number: int, chunks: int, characters: int) -> Answer:
    text = chat_workload.make_text(random.Random(f"answer {number}"), characters)
    ends = [round(place * len(text) / chunks) for place in range(chunks + 1)]
    parts = (text[start:end] for start, end in pairwise(ends))
    return Answer(tuple(_event({"content": part}) for part in parts), text)


def _event(delta: dict[str, str], reason: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return b"data: " + _dump({"id": "chatcmpl-bench", "object": "chat.completion.chunk"}, choices) + b"\n\n"


def _dump(head: dict[str, Any], choices: list[dict[str, Any]], **more: Any) -> bytes:
    body = head | {"created": 1_760_000_000, "model": "bench-1", "choices": choices} | more
    return json.dumps(body, separators=(",", ":")).encode()


async def read_body(receive: Receive) -> bytes:
    """Return the whole body of a request."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return body


async def send_whole(send: Send, body: bytes) -> None:
    """Send a JSON answer."""
    headers = [(b"content-type", JSON), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send(_body_part(body, more=False))


async def follow_lifespan(receive: Receive, send: Send) -> None:
    """Follow the lifespan protocol of ASGI with nothing to start or stop."""
    for _ in range(2):
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


def _body_part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=50)
    parser.add_argument("--pause-ms", type=float, default=0)
    parser.add_argument("--characters", type=int, default=400)
    arguments = parser.parse_args()
    endpoint = Endpoint(arguments.chunks, arguments.pause_ms / 1000, arguments.characters)
    with freeze_startup_objects():
        uvloop.run(run_until_terminated(endpoint))


if __name__ == "__main__":
    main()
