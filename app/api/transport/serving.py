"""The process of the HTTP API: event loop, signals, exit code."""

import asyncio
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from starlette.types import ASGIApp

from app.api.transport.options import ServerOptions, address_refusal, trusted_proxies
from app.api.transport.server import HttpServer, StartFailed
from app.api.transport.supervision import SupervisorChannel
from app.config.server_worker import ServerWorker

RETIRE_S = 300.0
"""The seconds that a worker has to finish its requests after others have taken over."""
log = structlog.get_logger(__name__)
AppFactory = Callable[[ServerWorker | None], ASGIApp]
"""A function that creates the application of a worker, or of a process that serves alone."""


def main(create_app: AppFactory, options: ServerOptions) -> None:
    """Serve until SIGTERM or SIGINT; a second SIGINT does not wait for open requests.

    A worker ignores SIGINT and SIGHUP, because its supervisor decides. It also ends when its supervisor is gone. Exit
    with 1 and a line on stderr if it cannot start.
    """
    app = create_app(options.worker)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        sys.exit(runner.run(_Serving(app, options).run()))


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _Serving:
    """The life of one server process."""

    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        self._options = options
        self._server = HttpServer(app, proxies=trusted_proxies())
        self._ended, self._hurried = asyncio.Event(), asyncio.Event()

    async def run(self) -> int:
        """Serve to the end, and return the exit code."""
        self._heed_signals()
        if not await self._start():
            return 1
        log.info("serving", host=self._options.host, port=self._options.port, worker=self._number)
        if self._options.worker is None:
            await self._ended.wait()
        else:
            await self._follow_supervisor(self._options.worker)
        return 0 if await _first(self._server.stop(self._options.grace_s), self._hurried.wait()) == 0 else 1

    @property
    def _number(self) -> int | None:
        return None if self._options.worker is None else self._options.worker.number

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        if self._options.worker is None:
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            return
        for ignored in (signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(ignored, lambda: None)

    def _interrupt(self) -> None:
        (self._hurried if self._ended.is_set() else self._ended).set()

    async def _start(self) -> bool:
        """Start the server. If it cannot start, say why on stderr and return False."""
        host = self._options.host
        port = self._options.port
        try:
            if self._options.worker is None:
                await self._server.start(host, port)
            else:
                await self._server.start_on([socket.socket(fileno=number) for number in self._options.listeners])
        except StartFailed as failed:
            if reason := str(failed):
                sys.stderr.write(f"{reason}\n")
            return False
        except OSError as error:
            sys.stderr.write(address_refusal(host, port, error))
            return False
        return True

    async def _follow_supervisor(self, worker: ServerWorker) -> None:
        """Return when this worker has to stop."""
        channel = SupervisorChannel(self._options.channel)
        await channel.report_ready()
        if await _first(self._ended.wait(), channel.orphaned.wait(), channel.retired.wait()) == 2:
            log.info("retiring", worker=worker.number)
            await _first(self._ended.wait(), channel.orphaned.wait(), self._server.retire(), timeout_s=RETIRE_S)
        if channel.orphaned.is_set():
            log.error("supervisor_gone", worker=worker.number)
            shutil.rmtree(worker.folder, ignore_errors=True)


async def _first(*waits: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> int | None:
    """Run all until one is done, and cancel the others. Return the position of that one, or None after `timeout_s`.

    Raise the error of the one that is done, if it failed.
    """
    tasks = [asyncio.create_task(wait) for wait in waits]
    await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    place = next((place for place, task in enumerate(tasks) if task.done()), None)
    for task in tasks:
        task.cancel()
    if place is not None:
        tasks[place].result()
    return place
