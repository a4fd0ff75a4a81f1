"""A TCP proxy that can stall: it refuses nothing and answers nothing, like a server that hangs."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


class StallingProxy:
    """A TCP proxy that stalls or drops the data of every connection, also of new ones."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._flows = asyncio.Event()
        self._flows.set()
        self._swallows = False
        self._carriers: set[asyncio.Task[None]] = set()
        self._dead: set[asyncio.Task[None]] = set()
        self.url = ""

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Stall until the block ends; then continue with the data that arrived."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    @contextmanager
    def swallowed(self, *, for_good: bool = False) -> Iterator[None]:
        """Drop every byte in both directions until the block ends; sockets stay open.

        `for_good`: connections of that time stay dead afterwards, and only new ones work.
        """
        self._swallows = True
        try:
            yield
        finally:
            self._swallows = False
            if for_good:
                self._dead |= self._carriers

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either side ends it."""
        task = asyncio.current_task()
        assert task is not None
        self._carriers.add(task)
        answers, requests = await asyncio.open_connection(self._parts.hostname, self._parts.port or 5432)
        pumps = [
            asyncio.create_task(self._pump(task, reader, requests)),
            asyncio.create_task(self._pump(task, answers, writer)),
        ]
        try:
            with suppress(asyncio.CancelledError):  # `cut` cancelled it; the stream server would log the error
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            requests.transport.abort()
            writer.transport.abort()
            self._carriers.discard(task)
            self._dead.discard(task)

    async def _pump(
        self, carrier: asyncio.Task[None], source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        while data := await source.read(1 << 16):
            await self._flows.wait()
            if not self._swallows and carrier not in self._dead:
                sink.write(data)
                await sink.drain()

    def at(self, port: int) -> str:
        """Return the URL with the proxy's port."""
        login = self._parts.netloc.rpartition("@")[0]
        return urlunsplit(self._parts._replace(netloc=f"{login}@127.0.0.1:{port}"))

    async def cut(self) -> None:
        """End every connection."""
        for task in list(self._carriers):
            task.cancel()
        await asyncio.gather(*self._carriers, return_exceptions=True)


@asynccontextmanager
async def stalling(url: str) -> AsyncIterator[StallingProxy]:
    """Run a proxy in front of the server of `url`; its own URL is `url` with another port."""
    proxy = StallingProxy(url)
    server = await asyncio.start_server(proxy.carry, "127.0.0.1", 0)
    proxy.url = proxy.at(server.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        server.close()
        await proxy.cut()
