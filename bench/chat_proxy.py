"""A proxy that forwards bytes and nothing else: the floor of a chat with memory, as a process of its own.

    python -m bench.chat_proxy http://127.0.0.1:8000/v1

It prints its port. It has the same HTTP server and HTTP client as Mnema, but no routes, keys, checks or log. SIGTERM
ends it.
"""

import argparse

import httpx2
import uvloop
from starlette.types import Receive, Scope, Send

from app.api.transport.startup import freeze_startup_objects
from bench.chat_upstream import follow_lifespan, read_body, send_whole
from bench.http_server import run_until_terminated

CONNECTIONS = 100
PASSED = frozenset({b"content-type", b"content-length"})
"""The headers of an answer that pass."""


class ForwardingProxy:
    """The ASGI application. `url` is the endpoint's base URL."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/chat/completions"
        limits = httpx2.Limits(max_connections=CONNECTIONS)
        self._client = httpx2.AsyncClient(timeout=None, trust_env=False, limits=limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a chat, or follow the lifespan protocol."""
        if scope["type"] == "lifespan":
            await follow_lifespan(receive, send)
        elif scope["method"] == "GET":
            await send_whole(send, b"{}")
        else:
            await self._forward(await read_body(receive), send)

    async def _forward(self, body: bytes, send: Send) -> None:
        headers = {"Content-Type": "application/json"}
        async with self._client.stream("POST", self._url, content=body, headers=headers) as answer:
            passed = [(name, value) for name, value in answer.headers.raw if name.lower() in PASSED]
            await send({"type": "http.response.start", "status": answer.status_code, "headers": passed})
            async for chunk in answer.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    proxy = ForwardingProxy(parser.parse_args().url)
    with freeze_startup_objects():
        uvloop.run(run_until_terminated(proxy))


if __name__ == "__main__":
    main()
