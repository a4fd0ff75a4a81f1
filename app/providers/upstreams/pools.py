"""HTTP clients, one for each tenant and origin.

So endpoints share neither connections nor certificates' names, and no tenant can take the connections of another.
"""

import ssl
from collections import OrderedDict
from dataclasses import dataclass

import httpx2

from app.domain.outages import UpstreamUnreachable

MAX_POOLS = 256
KEEPALIVE_S = 4.0
"""The seconds that an idle connection is kept: fewer than servers keep theirs (uvicorn 5), so none is cut in use."""
Place = tuple[str, str, str, int]
"""A tenant, and the scheme, host and port of an origin."""


@dataclass(slots=True, eq=False)
class Pool:
    """The client of one tenant and origin. `busy`: open calls. `address`: the address that took the last connection."""

    client: httpx2.AsyncClient
    busy: int = 0
    address: str = ""

    def order_addresses(self, addresses: list[str]) -> list[str]:
        """Return the addresses with the one in use first, because its connections can be used again."""
        return sorted(addresses, key=lambda address: address != self.address)


class PoolCache:
    """At most MAX_POOLS pools. Those with open calls are never closed, and may be more for a while."""

    def __init__(self, max_connections: int, tls: ssl.SSLContext | None) -> None:
        self._max_connections = max_connections
        self._tls = tls
        self._pools: OrderedDict[Place, Pool] = OrderedDict()
        self._closed = False

    async def enter_pool(self, place: Place) -> Pool:
        """Return the pool of a place and count an open call. Raise UpstreamUnreachable after `close`."""
        if self._closed:
            raise UpstreamUnreachable("The server is stopping and calls no chat endpoints any more.")
        pool = self._pools.get(place) or Pool(self._make_client())
        pool.busy += 1
        self._pools[place] = pool
        self._pools.move_to_end(place)
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
        idle = [place for place, pool in self._pools.items() if not pool.busy][:surplus]
        for pool in [self._pools.pop(place) for place in idle]:
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
