"""Work in the background of an application, for as long as it is open."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

log = structlog.get_logger(__name__)


@asynccontextmanager
async def run_periodically(work: Callable[[], Awaitable[None]], interval_s: float, failure: str) -> AsyncIterator[None]:
    """Inside, `work` is done every `interval_s`; at the end what is in work is finished, and it is done once more.

    What it raises is logged as `failure` and ends nothing, but for the last time.
    """
    stopping = asyncio.Event()

    async def repeat_work() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), interval_s)
            try:
                await work()
            except Exception:  # the next time may go well
                log.exception(failure)

    task = asyncio.create_task(repeat_work())
    try:
        yield
    finally:
        stopping.set()
        await task
        await work()
