"""HTTP clients, one for each origin, so that endpoints share neither connections nor certificates' names."""

import ssl
from collections import OrderedDict
from dataclasses import dataclass

import httpx2

from app.domain.outages import UpstreamUnreachable

MAX_POOLS = 64
KEEPALIVE_S = 4.0
"""The seconds that an idle connection is kept: fewer than servers keep theirs (uvicorn 5), so none is cut in use."""
Origin = tuple[str, str, int]


@dataclass(slots=True, eq=False)
class Pool:
    """The client of one origin. `busy`: open calls. `address`: the address that took the last connection."""

    client: httpx2.AsyncClient
    busy: int = 0
    address: str = ""

    def order_addresses(self, addresses: list[str]) -> list[str]:
        """Return the addresses with the one in use first, because its connections can be used again."""
        return sorted(addresses, key=lambda address: address != self.address)


class PoolCache:
    """The pools of at most MAX_POOLS origins. Those with open calls are never closed, and may be more for a while."""

    def __init__(self, max_connections: int, tls: ssl.SSLContext | None) -> None:
        self._max_connections = max_connections
        self._tls = tls
        self._pools: OrderedDict[Origin, Pool] = OrderedDict()
        self._closed = False

    async def enter_pool(self, origin: Origin) -> Pool:
        """Return the origin's pool and count an open call. Raise UpstreamUnreachable after `close`."""
        if self._closed:
            raise UpstreamUnreachable("The server is stopping and calls no chat endpoints any more.")
        pool = self._pools.get(origin) or Pool(self._make_client())
        pool.busy += 1
        self._pools[origin] = pool
        self._pools.move_to_end(origin)
        await self._drop_surplus()
        return pool

    async def leave_pool(self, pool: Pool) -> None:
        """Count a call that has ended."""
        pool.busy -= 1
        await self._drop_surplus()

    async def close(self) -> None:
        """Close all clients, with the calls that are still open."""
        self._closed = True
        while self._pools:
            _, pool = self._pools.popitem()
            await pool.client.aclose()

    async def _drop_surplus(self) -> None:
        surplus = len(self._pools) - MAX_POOLS
        if surplus <= 0:
            return
        idle = [origin for origin, pool in self._pools.items() if not pool.busy][:surplus]
        for pool in [self._pools.pop(origin) for origin in idle]:
            await pool.client.aclose()

    def _make_client(self) -> httpx2.AsyncClient:
        if self._tls is None:  # loading the authorities takes some 20 ms: once for all pools
            self._tls = httpx2.create_ssl_context()
        return httpx2.AsyncClient(
            verify=self._tls,
            trust_env=False,  # a proxy would resolve the host itself, past the check of its address
            follow_redirects=False,
            timeout=None,
            limits=httpx2.Limits(max_connections=self._max_connections, keepalive_expiry=KEEPALIVE_S),
        )
