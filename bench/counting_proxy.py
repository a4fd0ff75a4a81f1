"""A proxy that counts round trips to PostgreSQL on the wire."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit


class CountingProxy:
    """A TCP proxy in front of PostgreSQL that counts flights.

    A flight is everything that the client sends after the server has sent something. One flight is one round trip,
    whatever its number of messages or packets.
    """

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._carriers: set[asyncio.Task[None]] = set()
        self.flights = 0

    async def __aenter__(self) -> "CountingProxy":
        self._server = await asyncio.start_server(self._accept_connection, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._carriers:
            task.cancel()
        await asyncio.gather(*self._carriers, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def proxy_url(self) -> str:
        """The URL of PostgreSQL with the proxy's address."""
        login, port = self._parts.netloc.rpartition("@")[0], self._server.sockets[0].getsockname()[1]
        return urlunsplit(self._parts._replace(netloc=f"{login}@127.0.0.1:{port}"))

    def _accept_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry_connection(reader, writer))
        self._carriers.add(task)
        task.add_done_callback(self._carriers.discard)

    async def _carry_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(self._parts.hostname, self._parts.port or 5432)
        client_spoke_last = False

        def count_flight(client: bool) -> None:
            nonlocal client_spoke_last
            self.flights += client and not client_spoke_last
            client_spoke_last = client

        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump_bytes(reader, requests, lambda: count_flight(client=True)))
                pumps.create_task(_pump_bytes(answers, writer, lambda: count_flight(client=False)))
        except* OSError:
            pass  # one side closed the connection; the other is closed below
        finally:
            requests.transport.abort()
            writer.transport.abort()


async def _pump_bytes(source: asyncio.StreamReader, sink: asyncio.StreamWriter, seen: Callable[[], None]) -> None:
    while data := await source.read(1 << 16):
        seen()
        sink.write(data)
        await sink.drain()
    sink.write_eof()
