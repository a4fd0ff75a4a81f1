"""One event loop and one application for each worker process, in a separate thread.

Celery's tasks are synchronous functions; the use-cases are asynchronous and share a connection pool.
"""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from billiard.exceptions import SoftTimeLimitExceeded

from app.bootstrap import Application, build_application
from app.bootstrap.adapters import worker_settings
from app.config.settings import Settings

T = TypeVar("T")
HAND_BACK_S = 10


class Runtime:
    """The event loop and the application of a worker process.

    The application opens at the first task, so a worker may start before its database.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        self._pid = 0
        self._stack = contextlib.AsyncExitStack()
        self._application: Application | None = None
        self._opening: asyncio.Lock | None = None

    @property
    def worker_name(self) -> str:
        """The name under which this process holds jobs: host and process id."""
        return f"{socket.gethostname()}:{os.getpid()}"

    def run_on_loop(self, work: Callable[[Application], Awaitable[T]]) -> T:
        """Run `work` on the event loop and return its result.

        Raise what it raises. At the soft time limit, cancel it, wait until it ends, and raise SoftTimeLimitExceeded.
        """
        loop = self._running_loop()
        ended = threading.Event()
        future = asyncio.run_coroutine_threadsafe(self._run_with_application(work, ended), loop)
        try:
            return future.result()
        except SoftTimeLimitExceeded:
            future.cancel()  # the future is cancelled at once, before the work on the loop ends: wait for the event
            ended.wait(HAND_BACK_S)
            raise

    def close(self) -> None:
        """Close the application and stop the event loop."""
        if self._loop is not None and self._pid == os.getpid():
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._stack.aclose(), self._loop).result(HAND_BACK_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:  # tasks and the sweeper call from different threads
            if self._loop is None or self._pid != os.getpid():  # a forked child has no thread of its parent
                self._loop = asyncio.new_event_loop()
                self._pid = os.getpid()
                self._application = None
                self._opening = asyncio.Lock()
                self._stack = contextlib.AsyncExitStack()
                threading.Thread(target=self._loop.run_forever, name="use-cases", daemon=True).start()
            return self._loop

    async def _run_with_application(self, work: Callable[[Application], Awaitable[T]], ended: threading.Event) -> T:
        assert self._opening is not None
        try:
            async with self._opening:
                if self._application is None:
                    self._application = await self._stack.enter_async_context(
                        build_application(worker_settings(Settings()))
                    )
            return await work(self._application)
        finally:
            ended.set()


runtime = Runtime()
