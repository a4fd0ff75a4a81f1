"""A server of one ASGI application: its lifespan, its connections, and its end."""

import asyncio
import ipaddress
from contextlib import suppress
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Scope

from app.api.transport.connections import Bounds, Connection
from app.api.transport.exchange import Exchange

log = structlog.get_logger(__name__)
BACKLOG = 2048
CUT_S = 5.0
"""Seconds that requests have to answer after they were cancelled."""
LEAVE_S = 2.0
"""Seconds that clients have then to take their answers."""
SCHEMES = frozenset({"http", "https"})


class StartFailed(Exception):
    """The application did not start; it has said why, or the message does."""


class HttpServer:
    """Serves from `start` to `stop`. `bounds` hold for each connection; `proxies` may say X-Forwarded-Proto."""

    def __init__(self, app: ASGIApp, bounds: Bounds | None = None, proxies: str = "127.0.0.1") -> None:
        """`proxies`: addresses and networks with commas between them, or `*`. Raises ValueError."""
        self.bounds = bounds or Bounds()
        self.stopping = False
        self._app = app
        self._proxies = None if proxies == "*" else [ipaddress.ip_network(one.strip()) for one in proxies.split(",")]
        self._lifespan = _Lifespan(app)
        self._listener: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._deserted = asyncio.Event()
        self._deserted.set()
        self._requests: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._listener is not None
        return int(self._listener.sockets[0].getsockname()[1])

    async def start(self, host: str, port: int) -> None:
        """Start the application, then listen; port 0 is any free one. Raises StartFailed, OSError."""
        await self._lifespan.start()
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(lambda: Connection(self), host, port, backlog=BACKLOG)
        except OSError:
            await self._lifespan.stop()
            raise

    async def stop(self, grace_s: float | None = None) -> None:
        """Take no more connections, give requests `grace_s` seconds, cancel the rest, and stop the application.

        Without `grace_s` it waits for the requests as long as they take.
        """
        self.stopping = True
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.finish()
        await self._end_requests(grace_s)
        await self._close_connections()
        await self._lifespan.stop()

    async def _end_requests(self, grace_s: float | None) -> None:
        if self._requests:
            await asyncio.wait(self._requests, timeout=grace_s)
        late = set(self._requests)
        if late:
            log.warning("requests_cancelled", count=len(late))
            for task in late:
                task.cancel()
            await asyncio.wait(late, timeout=CUT_S)

    async def _close_connections(self) -> None:
        for connection in list(self._connections):
            connection.hang_up()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._deserted.wait(), LEAVE_S)
        for connection in list(self._connections):
            connection.abort()

    # what connections call

    def open(self, connection: Connection) -> bool:
        """Count a connection. False if there are too many."""
        self._connections.add(connection)
        self._deserted.clear()
        return len(self._connections) <= self.bounds.connections

    def close(self, connection: Connection) -> None:
        """Count it no more."""
        self._connections.discard(connection)
        if not self._connections:
            self._deserted.set()

    def begin(self, exchange: Exchange) -> None:
        """Let the application answer, in a task of its own."""
        task = asyncio.get_running_loop().create_task(exchange.run(self._app))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    def scope(self, transport: asyncio.Transport) -> Scope:
        """Return what all requests of a connection have in common."""
        client, server = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "scheme": "http",
            "root_path": "",
            "client": tuple(client[:2]) if client else None,
            "server": tuple(server[:2]) if server else None,
            "state": self._lifespan.state,
        }

    def scheme(self, scope: Scope, forwarded: str) -> str:
        """Return the scheme that a trusted proxy names, else the connection's."""
        named = forwarded.strip().lower()
        return named if named in SCHEMES and self._trusts(scope["client"]) else "http"

    def _trusts(self, client: tuple[str, int] | None) -> bool:
        if self._proxies is None:
            return True
        address = ipaddress.ip_address(client[0]) if client else None
        return address is not None and any(address in network for network in self._proxies)


class _Lifespan:
    """ASGI's lifespan, in a task of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.state: dict[str, Any] = {}
        self._app = app
        self._orders: asyncio.Queue[Message] = asyncio.Queue()
        self._answers: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._live())
        answer = await self._ask("lifespan.startup")
        if answer["type"] != "lifespan.startup.complete":
            await asyncio.wait([self._task])
            raise StartFailed(answer.get("message", ""))

    async def stop(self) -> None:
        if self._task is not None and not self._task.done():
            answer = await self._ask("lifespan.shutdown")
            if answer["type"] != "lifespan.shutdown.complete":
                log.error("shutdown_failed", detail=answer.get("message", ""))
            await asyncio.wait([self._task])

    async def _live(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self._app(scope, self._orders.get, self._answers.put)
        except Exception as error:  # a failed start is told by its message
            log.debug("lifespan_failed", error=type(error).__name__)

    async def _ask(self, order: str) -> Message:
        """Give an order and return the answer, or that the application ended without one."""
        assert self._task is not None
        self._orders.put_nowait({"type": order})
        answer = asyncio.ensure_future(self._answers.get())
        await asyncio.wait([answer, self._task], return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        return {"type": f"{order}.failed"} if self._answers.empty() else self._answers.get_nowait()
