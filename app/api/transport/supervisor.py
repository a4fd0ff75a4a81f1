"""The process above several workers of one address: it starts them, restarts them, reloads them and stops them.

It binds the sockets once, and every worker listens on them. So a connection that arrives during a reload waits until a
worker accepts it, and none is lost. The supervisor answers no requests, and does not import the application.
"""

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import structlog

from app.api.transport.options import ServerOptions, address_refusal
from app.api.transport.worker_process import WorkerFailed, WorkerProcess
from app.config.logs import configure_logs
from app.config.server_worker import ServerWorker

STEADY_S = 10.0
"""The seconds of serving after which a worker counts as healthy. If a healthy worker ends, it is restarted at once."""
LONGEST_PAUSE_S = 30.0
MARGIN_S = 12.0
"""The seconds that a worker has to end after its grace period."""
log = structlog.get_logger(__name__)


def supervise(options: ServerOptions) -> int:
    """Run workers until SIGTERM or SIGINT, and return the exit code: 0 if all of them ended in time.

    SIGHUP replaces the workers by new ones. A second SIGINT kills them. If a worker cannot start at the beginning, all
    of them end, and its exit code is returned.
    """
    configure_logs()
    try:
        sockets = bind_sockets(options.host, options.port)
    except OSError as error:
        sys.stderr.write(address_refusal(options.host, options.port, error))
        return 1
    with tempfile.TemporaryDirectory(prefix="mnema-serve-", ignore_cleanup_errors=True) as folder:
        return asyncio.run(Supervisor(options, sockets, folder).run())


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Return a bound socket for each address of the host. Workers listen on them once they are ready. Raise OSError."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with ExitStack() as opened:
        sockets = []
        for family, kind, protocol, _name, address in dict.fromkeys(found):
            bound = opened.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.setblocking(False)
            bound.bind(address)
            sockets.append(bound)
        opened.pop_all()
    return sockets


class Supervisor:
    """The workers of one address. `_current` are those that have to serve, by number; `_alive` are all processes."""

    def __init__(self, options: ServerOptions, sockets: Sequence[socket.socket], folder: str) -> None:
        """Take bound sockets, and a folder that the workers share."""
        self._options = options
        self._listeners = [bound.fileno() for bound in sockets]
        self._folder = folder
        self._serial = 0
        self._current: dict[int, WorkerProcess] = {}
        self._alive: set[WorkerProcess] = set()
        self._failures: dict[int, int] = {}
        self._watches: set[asyncio.Task[None]] = set()
        self._launching = asyncio.Lock()
        self._told, self._reload = asyncio.Event(), asyncio.Event()

    async def run(self) -> int:
        """Run the workers to the end, and return the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._told.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)
        serving = asyncio.create_task(self._serve())
        told = asyncio.create_task(self._told.wait())
        await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if serving.done():
            await self._stop_all()
            return serving.result()
        serving.cancel()
        return await self._stop_all()

    async def _serve(self) -> int:
        """Start the workers, and reload them as often as asked. Return an exit code if they cannot start."""
        try:
            self._take_over(await self._start_all())
        except WorkerFailed as failed:
            return failed.exit_code
        except OSError as error:
            sys.stderr.write(f"error cannot_start: no process could be started: {error.strerror}\n")
            return 1
        log.info("workers_serving", workers=self._options.workers, host=self._options.host, port=self._options.port)
        while True:
            await self._reload.wait()
            self._reload.clear()
            await self._replace_all()

    async def _replace_all(self) -> None:
        """Start new workers. Retire the present ones once all new ones are ready; otherwise keep the present ones."""
        log.info("reload_begun", pid=os.getpid())
        try:
            fresh = await self._start_all()
        except (WorkerFailed, OSError) as failed:
            log.error("reload_failed", detail=str(failed))
            return
        former = self._current
        self._take_over(fresh)
        for worker in former.values():
            worker.retire()
        log.info("reload_done", pid=os.getpid())

    def _take_over(self, fresh: dict[int, WorkerProcess]) -> None:
        self._current = fresh
        self._failures.clear()
        for worker in fresh.values():
            if worker not in self._alive:  # it ended after it was ready, while the others started
                self._begin_watch(worker)

    async def _start_all(self) -> dict[int, WorkerProcess]:
        """Return ready workers by number. Raise WorkerFailed if one cannot start; then none of them is left.

        The first worker starts alone, so that a wrong configuration is reported only once. It also builds what all
        workers share.
        """
        fresh: dict[int, WorkerProcess] = {}
        try:
            fresh[1] = await self._launch(1)
            await fresh[1].wait_ready()
            for number in range(2, self._options.workers + 1):
                fresh[number] = await self._launch(number)
            for worker in fresh.values():
                await worker.wait_ready()
        except (WorkerFailed, OSError):
            await self._end_workers(fresh.values())
            raise
        return fresh

    async def _launch(self, number: int) -> WorkerProcess:
        async with self._launching:
            self._serial += 1
            place = ServerWorker(number, self._serial, self._options.workers, self._folder)
            worker = await WorkerProcess.launch(place, self._options, self._listeners)
            self._alive.add(worker)
        self._begin_watch(worker)
        return worker

    def _begin_watch(self, worker: WorkerProcess) -> None:
        watch = asyncio.create_task(self._watch(worker))
        self._watches.add(watch)
        watch.add_done_callback(self._end_watch)

    def _end_watch(self, watch: asyncio.Task[None]) -> None:
        self._watches.discard(watch)
        if not watch.cancelled() and (error := watch.exception()) is not None:
            log.error("watch_failed", exc_info=error)

    async def _watch(self, worker: WorkerProcess) -> None:
        """Wait for the worker's end, and start another one in its place, unless it was replaced or has to stop."""
        code = await worker.wait_ended()
        self._alive.discard(worker)
        number = worker.place.number
        if self._current.get(number) is not worker:
            return
        pause_s = self._next_pause(number, steady=worker.served_s > STEADY_S)
        log.warning("worker_ended", worker=number, pid=worker.pid, exit_code=code, restart_s=pause_s)
        await asyncio.sleep(pause_s)
        while self._current.get(number) is worker:
            try:
                self._take_place(worker, await self._launch(number))
            except OSError as error:
                log.error("worker_not_started", worker=number, detail=error.strerror)
                await asyncio.sleep(LONGEST_PAUSE_S)

    def _take_place(self, former: WorkerProcess, fresh: WorkerProcess) -> None:
        """Put a worker in the place of one that has ended, unless a reload did that meanwhile."""
        if self._current.get(fresh.place.number) is former:
            self._current[fresh.place.number] = fresh
        else:
            fresh.send(signal.SIGTERM)

    def _next_pause(self, number: int, *, steady: bool) -> float:
        """Return the seconds before a restart: none for a healthy worker, then 1, 2, 4 and so on for one that fails."""
        failures = self._failures[number] = 0 if steady else self._failures.get(number, -1) + 1
        return min(LONGEST_PAUSE_S, 2.0 ** min(failures - 1, 10)) if failures else 0.0

    async def _stop_all(self) -> int:
        """Stop all workers, and kill those that do not end in time. Return 0 if none was killed."""
        self._current = {}
        async with self._launching:  # a worker that is being started is stopped, too
            stopping = list(self._alive)
        codes = await self._end_workers(stopping)
        return 0 if codes <= {0, -signal.SIGTERM} else 1  # a worker that has just begun ends by SIGTERM itself

    async def _end_workers(self, workers: Iterable[WorkerProcess]) -> set[int]:
        """Stop workers, and kill those that do not end in time. Return their exit codes."""
        stopping = list(workers)
        for worker in stopping:
            worker.send(signal.SIGTERM)
        ended = [asyncio.create_task(worker.wait_ended()) for worker in stopping]
        if ended:
            await asyncio.wait(ended, timeout=self._options.grace_s + MARGIN_S)
        for worker in stopping:
            if not worker.has_ended:
                log.warning("worker_killed", worker=worker.place.number, pid=worker.pid)
                worker.send(signal.SIGKILL)
        return set(await asyncio.gather(*ended))

    def _kill_all(self) -> None:
        for worker in self._alive:
            worker.send(signal.SIGKILL)

    def _interrupt(self) -> None:
        if self._told.is_set():
            self._kill_all()
        self._told.set()
