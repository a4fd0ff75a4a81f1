"""A proxy in front of a server, for tests in which the server goes away."""

import asyncio
from contextlib import suppress


class Gate:
    """A proxy in front of the server. When shut, it refuses connections or answers like a proxy without a server."""

    def __init__(self, server: str) -> None:
        self._target = int(server.rsplit(":", 1)[1])
        self._listener: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._port = 0
        self.answer: bytes | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def open(self) -> None:
        self.answer = None
        if self._listener is None:
            self._listener = await asyncio.start_server(self._pass_on, "127.0.0.1", self._port)
            self._port = self._listener.sockets[0].getsockname()[1]

    async def shut(self, answer: bytes | None = None) -> None:
        self.answer = answer
        if answer is None and self._listener is not None:
            self._listener.close()
            self._listener = None
        for writer in list(self._open):
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if self.answer is not None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(self.answer)
                await writer.drain()
                return
            back_reader, back = await asyncio.open_connection("127.0.0.1", self._target)
            self._open.add(back)
            await asyncio.gather(_copy(reader, back), _copy(back_reader, writer))
        finally:
            writer.close()
            self._open.discard(writer)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
    target.close()
