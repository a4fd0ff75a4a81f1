"""One worker of `mnema serve --workers N`, as its supervisor sees it."""

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

import structlog

from app.api.transport.options import ServerOptions
from app.api.transport.supervision import READY, RETIRE
from app.config.server_worker import ServerWorker

START_S = 120.0
"""The seconds that a worker may take until it serves."""
log = structlog.get_logger(__name__)


class WorkerFailed(Exception):
    """A worker ended before it was ready. `exit_code` is its own, 1 if a signal ended it."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"a worker ended with {exit_code}")
        self.exit_code = exit_code if exit_code > 0 else 1


class WorkerProcess:
    """A new process with the present code and configuration.

    It holds one end of a socket pair with the supervisor. When that stream ends, the supervisor has ended, so it stops.
    """

    def __init__(
        self,
        place: ServerWorker,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.place = place
        self._process = process
        self._reader = reader
        self._writer = writer
        self._ready_at: float | None = None
        self._announced = asyncio.create_task(self._read_announcement())

    @classmethod
    async def launch(cls, place: ServerWorker, options: ServerOptions, listeners: Sequence[int]) -> "WorkerProcess":
        """Start a worker that listens on these file descriptors. Raise OSError if no process can be made."""
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)
            arguments = options.worker_arguments(place, listeners, theirs.fileno())
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "app.api",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(*listeners, theirs.fileno()),
            )
            undo.callback(_kill, process)
            worker = cls(place, process, *await asyncio.open_connection(sock=ours))
            undo.pop_all()
        return worker

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """True if the process is gone."""
        return self._process.returncode is not None

    @property
    def served_s(self) -> float:
        """The seconds since the worker began to serve; 0 if it never did."""
        return 0.0 if self._ready_at is None else time.monotonic() - self._ready_at

    async def wait_ready(self) -> None:
        """Wait until the worker serves. Raise WorkerFailed if it has ended instead; kill it after START_S seconds."""
        try:
            async with asyncio.timeout(START_S):
                await asyncio.shield(self._announced)
        except TimeoutError:
            log.error("worker_silent", worker=self.place.number, pid=self.pid, seconds=START_S)
            self.send(signal.SIGKILL)
        if self._ready_at is None:
            raise WorkerFailed(await self.wait_ended())

    async def _read_announcement(self) -> None:
        with suppress(OSError):
            if await self._reader.readline() == READY:
                self._ready_at = time.monotonic()

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


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
