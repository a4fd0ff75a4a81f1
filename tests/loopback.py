"""A test's own server on loopback: real sockets, no separate process."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route


class _Server(uvicorn.Server):
    """A uvicorn server inside a test. It reports when it listens and leaves signals to pytest."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def loopback(routes: Sequence[Route], stopping: asyncio.Event, port: int = 0) -> AsyncIterator[str]:
    """Serve on this port, or on a free one; yield the base URL. `stopping` is set at the end to release requests."""
    listener = socket.create_server(("127.0.0.1", port))
    # asyncio sets this only on sockets that it made itself; without it, each answer waits 40 ms for an acknowledgement
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(
        Starlette(routes=routes), lifespan="off", ws="none", log_config=None, timeout_graceful_shutdown=5
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    await server.listening.wait()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stopping.set()
        server.should_exit = True
        await serving
        listener.close()
