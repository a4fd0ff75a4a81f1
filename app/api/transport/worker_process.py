"""One worker of `mnema serve --workers N`, as its supervisor sees it."""

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from app.api.transport.options import ServerOptions
from app.api.transport.supervision import READY, RETIRE
from app.config.server_worker import ServerWorker


class WorkerFailed(Exception):
    """A worker ended before it was ready. `exit_code` is its own, 1 if a signal ended it."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"a worker ended with {exit_code}")
        self.exit_code = exit_code if exit_code > 0 else 1


class WorkerProcess:
    """A new process with the present code and configuration. `started` is the monotonic time of its start.

    It has one end of a socket pair. It stops when it reads the end of that stream, because the supervisor has ended.
    """

    def __init__(
        self,
        place: ServerWorker,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.place = place
        self.started = time.monotonic()
        self._process = process
        self._reader = reader
        self._writer = writer
        self._ready = False

    @classmethod
    async def launch(cls, place: ServerWorker, options: ServerOptions, listeners: Sequence[int]) -> "WorkerProcess":
        """Start a worker that listens on these file descriptors. Raise OSError if no process can be made."""
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = options.worker_arguments(place, listeners, theirs.fileno())
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "app.api", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(*listeners, theirs.fileno()),
            )
        return cls(place, process, *await asyncio.open_connection(sock=ours))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """True if the process is gone."""
        return self._process.returncode is not None

    async def wait_ready(self) -> None:
        """Return when the worker serves. Raise WorkerFailed if it has ended instead."""
        if not self._ready:
            self._ready = await self._reader.readline() == READY
        if not self._ready:
            raise WorkerFailed(await self.wait_ended())

    async def wait_ended(self) -> int:
        """Return the exit code when the worker has ended, negative for a signal."""
        code = await self._process.wait()
        self._writer.close()
        self.place.metrics_socket.unlink(missing_ok=True)
        return code

    def retire(self) -> None:
        """Tell the worker that others have taken over: it finishes its requests and ends."""
        with suppress(OSError):
            self._writer.write(RETIRE)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
