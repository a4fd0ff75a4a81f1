"""Host names to addresses, with a short memory."""

import asyncio
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address

from app.domain.outages import UpstreamUnreachable
from app.shares import SharedThreads

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""A function that returns all addresses of a host. It raises OSError if there are none."""
KEEP_S = 10.0
MAX_NAMES = 256
THREADS = 8


class CachedResolver:
    """The addresses of host names, kept for KEEP_S seconds. Concurrent requests for one name wait for one look-up.

    `resolve` replaces the operating system's look-up.
    """

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._threads: SharedThreads | None = None
        self._resolve = resolve or self._ask_system
        self._known: OrderedDict[str, tuple[float, asyncio.Task[Sequence[str]]]] = OrderedDict()

    async def find_addresses(self, host: str) -> Sequence[str]:
        """Return the addresses of a host, at least one. Raise UpstreamUnreachable if there are none."""
        if _is_address(host):
            return [host]
        kept = self._known.get(host)
        if kept is None or (kept[1].done() and time.monotonic() >= kept[0]):
            kept = time.monotonic() + KEEP_S, asyncio.create_task(self._look_up(host))
            self._known[host] = kept
            self._known.move_to_end(host)
            if len(self._known) > MAX_NAMES:
                self._known.popitem(last=False)
        addresses = await asyncio.shield(kept[1])
        if not addresses:
            raise UpstreamUnreachable("The name of the chat endpoint's host cannot be resolved.")
        return addresses

    def close(self) -> None:
        """Release the threads. A look-up that still hangs is not waited for."""
        if self._threads is not None:
            self._threads.stop()

    async def _look_up(self, host: str) -> Sequence[str]:
        try:
            return await self._resolve(host)
        except (OSError, UnicodeError):
            self._known.pop(host, None)
            return ()

    async def _ask_system(self, host: str) -> Sequence[str]:
        """Ask in threads of our own, of which each tenant has a share: a name server that hangs holds few of them."""
        if self._threads is None:
            self._threads = SharedThreads(THREADS, "resolve")
        found = await self._threads.run(_look_up_stream, host)
        return list(dict.fromkeys(found))


def _look_up_stream(host: str) -> list[str]:
    entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in entries]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
