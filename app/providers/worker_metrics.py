"""The metrics of all workers of one server. Each serves its own at a socket; the one that is scraped joins them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

PATIENCE_S = 1.0
"""The seconds that another worker has to tell its metrics."""


UP = b"# HELP mnema_worker_up 1 if the worker told its metrics.\n# TYPE mnema_worker_up gauge\n"


class WorkerMetrics(Protocol):
    """The metrics of the other workers of this server."""

    async def collect_texts(self) -> list[bytes]:
        """Return the others' metrics in Prometheus' text format. A worker that does not answer in time is missing."""


class NoOtherWorkers:
    """The null implementation, for a process that serves alone."""

    async def collect_texts(self) -> list[bytes]:
        """Return nothing."""
        return []


class SocketWorkerMetrics:
    """Metrics by Unix sockets in the folder that the workers share.

    A socket is called `NUMBER-SERIAL.metrics`. A process that replaces another one has its number and a higher serial.
    """

    def __init__(self, path: Path, number: int, count: int) -> None:
        """Take the `path` of this worker's socket, its number, and the number of all workers."""
        self._path = path
        self._number = number
        self._count = count

    @asynccontextmanager
    async def answer_others(self, render: Callable[[], bytes]) -> AsyncIterator[None]:
        """Tell others what `render` returns, until the block ends. Raise OSError if the socket cannot be made."""

        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                writer.write(render())
                await writer.drain()
            writer.close()

        listener = await asyncio.start_unix_server(answer, self._path)
        try:
            yield
        finally:
            listener.close()
            self._path.unlink(missing_ok=True)

    async def collect_texts(self) -> list[bytes]:
        """Return the others' metrics, and a gauge that says which workers answered."""
        numbers = range(1, self._count + 1)
        texts = await asyncio.gather(*(self._ask_worker(n) for n in numbers if n != self._number))
        texts.insert(self._number - 1, b" ")
        up = b"".join(b'mnema_worker_up{worker="%d"} %d.0\n' % (n, bool(texts[n - 1])) for n in numbers)
        return [*texts, UP + up]

    async def _ask_worker(self, number: int) -> bytes:
        """Return the text of the newest process with this number that answers, or nothing."""
        for path in self._list_sockets(number):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    return await _read_text(path)
        return b""

    def _list_sockets(self, number: int) -> list[Path]:
        """Return the sockets of a worker, the newest process first."""
        found = self._path.parent.glob(f"{number}-*{self._path.suffix}")
        return sorted(found, key=lambda path: int(path.stem.partition("-")[2]), reverse=True)


async def _read_text(path: Path) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        return await reader.read()
    finally:
        writer.close()


def join_metrics(texts: Iterable[bytes]) -> bytes:
    """Join texts in Prometheus' format whose samples differ in their labels, so that each metric comes once."""
    joined: dict[bytes, list[bytes]] = {}
    for text in texts:
        for part in (b"\n" + text.strip()).split(b"\n# HELP ")[1:]:
            about, kind, *samples = part.split(b"\n")
            joined.setdefault(b"# HELP " + about + b"\n" + kind, []).extend(samples)
    return b"".join(b"\n".join((head, *samples)) + b"\n" for head, samples in joined.items())
