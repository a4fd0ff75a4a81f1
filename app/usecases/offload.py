"""One thread beside the event loop, for work on large inputs."""

from collections.abc import Callable
from typing import TypeVar

from app.shares import SharedThreads

T = TypeVar("T")
LARGE = 64 << 10
_THREAD = SharedThreads(1, "aside")


async def offload_if_large(size: int, work: Callable[..., T], *args: object) -> T:
    """Return `work(*args)`; run it in the only offload thread if its input (`size` bytes) is larger than LARGE.

    Decoders hold the interpreter's lock. Many decoder threads would starve the event loop; with one thread, the loop
    waits for one call at most.
    """
    if size <= LARGE:
        return work(*args)
    return await _THREAD.run(work, *args)
