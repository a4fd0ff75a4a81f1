"""An HTTP/1.1 server of one ASGI application: lifespan, connections and graceful stop."""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Scope

from app.api.transport.connections import Bounds, Connection
from app.api.transport.exchange import Exchange
from app.api.transport.options import read_networks

log = structlog.get_logger(__name__)
BACKLOG = 2048
CUT_S = 5.0
"""The seconds that a cancelled request has to answer."""
LEAVE_S = 2.0
"""The seconds that clients have to read their answers after that."""
LEAVING = "mnema.leaving"
"""The ASGI extension with the event that is set when the server retires or stops: endless answers end then."""
SCHEMES = frozenset({"http", "https"})


class StartFailed(Exception):
    """The application did not start. The message says why, unless the application has logged it."""


class HttpServer:
    """A server from `start` to `stop`. `bounds` hold for each connection."""

    def __init__(self, app: ASGIApp, bounds: Bounds | None = None, proxies: str = "127.0.0.1") -> None:
        """`proxies`: the proxies whose X-Forwarded-Proto counts, with commas between them, or `*`. Raise ValueError."""
        self.bounds = bounds or Bounds()
        self.stopping = False
        self.retiring = False
        self._app = app
        self._proxies = read_networks(proxies)
        self._lifespan = _Lifespan(app)
        self._listeners: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._requests: set[asyncio.Task[None]] = set()
        self._leaving = asyncio.Event()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listeners[0].sockets[0].getsockname()[1])

    async def start(self, host: str, port: int) -> None:
        """Start the application, then listen. Port 0 means any free port. Raise StartFailed or OSError."""
        await self._lifespan.start()
        await self._listen(host=host, port=port)

    async def start_on(self, sockets: Sequence[socket.socket]) -> None:
        """Start the application, then listen on bound sockets. Raise StartFailed or OSError."""
        await self._lifespan.start()
        for bound in sockets:
            await self._listen(sock=bound)

    async def _listen(self, **address: Any) -> None:
        loop = asyncio.get_running_loop()
        try:
            listener = await loop.create_server(lambda: Connection(self), backlog=BACKLOG, **address)
        except OSError:
            await self._lifespan.stop()
            raise
        self._listeners.append(listener)

    async def retire(self) -> None:
        """Accept no more connections, and return when all clients have gone. Only `stop` stops the application.

        The next answer of each connection tells the client to close it. A connection without a request closes after
        the usual idle time. So no client loses a request that it sends now.
        """
        self.retiring = True
        self._leaving.set()
        self._close_listeners()
        await asyncio.sleep(0)  # a connection that was accepted just now is counted in this turn of the loop
        await self._all_closed.wait()

    async def stop(self, grace_s: float | None = None) -> None:
        """Accept no more connections, wait `grace_s` seconds for open requests, cancel the rest, stop the application.

        `grace_s` None waits until all requests have ended.
        """
        self.stopping = True
        self._leaving.set()
        self._close_listeners()
        for connection in list(self._connections):
            connection.close_when_answered()
        await self._end_requests(grace_s)
        await self._close_connections()
        await self._lifespan.stop()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

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
            connection.close_after_flush()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._all_closed.wait()
        for connection in list(self._connections):
            connection.abort()

    # calls of connections

    def admit_connection(self, connection: Connection) -> bool:
        """Count a connection; return False if there are too many."""
        self._connections.add(connection)
        self._all_closed.clear()
        return len(self._connections) <= self.bounds.connections

    def forget_connection(self, connection: Connection) -> None:
        """Stop counting a connection."""
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()

    def begin_exchange(self, exchange: Exchange) -> None:
        """Start the application for a request, in a task of its own."""
        task = asyncio.get_running_loop().create_task(exchange.run_application(self._app))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    def build_shared_scope(self, transport: asyncio.Transport) -> Scope:
        """Return the ASGI scope that all requests of a connection share."""
        client = transport.get_extra_info("peername")
        server = transport.get_extra_info("sockname")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "scheme": "http",
            "root_path": "",
            "client": tuple(client[:2]) if client else None,
            "server": tuple(server[:2]) if server else None,
            "state": self._lifespan.state,
            "extensions": {LEAVING: self._leaving},
        }

    def resolve_scheme(self, scope: Scope, forwarded: str) -> str:
        """Return the scheme that a trusted proxy names, else `http`."""
        named = forwarded.strip().lower()
        return named if named in SCHEMES and self._is_trusted_proxy(scope["client"]) else "http"

    def _is_trusted_proxy(self, client: tuple[str, int] | None) -> bool:
        if self._proxies is None:
            return True
        address = ipaddress.ip_address(client[0]) if client else None
        return address is not None and any(address in network for network in self._proxies)


class _Lifespan:
    """The lifespan protocol of ASGI, in a task of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.state: dict[str, Any] = {}
        self._app = app
        self._orders: asyncio.Queue[Message] = asyncio.Queue()
        self._answers: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run_application())
        answer = await self._send_order("lifespan.startup")
        if answer["type"] != "lifespan.startup.complete":
            await asyncio.wait([self._task])
            raise StartFailed(answer.get("message", ""))

    async def stop(self) -> None:
        if self._task is not None and not self._task.done():
            answer = await self._send_order("lifespan.shutdown")
            if answer["type"] != "lifespan.shutdown.complete":
                log.error("shutdown_failed", detail=answer.get("message", ""))
            await asyncio.wait([self._task])

    async def _run_application(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self._app(scope, self._orders.get, self._answers.put)
        except Exception as error:  # the message of a failed start tells the reason
            log.debug("lifespan_failed", error=type(error).__name__)

    async def _send_order(self, order: str) -> Message:
        """Send an order; return the application's answer, or a failure if it ended without one."""
        assert self._task is not None
        self._orders.put_nowait({"type": order})
        answer = asyncio.ensure_future(self._answers.get())
        await asyncio.wait([answer, self._task], return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        return {"type": f"{order}.failed"} if self._answers.empty() else self._answers.get_nowait()
