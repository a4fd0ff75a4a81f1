"""Chat endpoints: which one a tenant's conversations go to, and how operators set it."""

import asyncio
import json
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from app.domain.chat.upstream import Upstream
from app.domain.errors import InvalidInput
from app.domain.outages import DatabaseUnavailable, NoUpstream, UpstreamKeyUnreadable, UpstreamUnusable
from app.domain.principal import Principal
from app.ports import UpstreamClient, UpstreamReply
from app.storage.chat.upstreams import StoredUpstream, UpstreamStorage

MAX_AUTHORIZATION = 4096
"""The longest key, and the longest value of X-Upstream-Authorization."""
MAX_CACHED = 10_000
MAX_MODELS_BYTES = 4 << 20
"""The largest list of models that `test` reads."""
RETRY_S = 1.0
"""The seconds for which a value from before an outage is used without asking the database again."""
TAIL = 4
LONG_KEY = 16
"""The last TAIL characters of a key are shown if it has so many that they do not help to guess it."""


@dataclass(frozen=True, slots=True)
class ShownUpstream:
    """A tenant's endpoint as it may be shown. `key` is `none`, `set`, `set, ends in …` or `unreadable`."""

    base_url: str
    key: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """The answer of an endpoint to GET /models. `models`: None if the answer is no list of models."""

    base_url: str
    status: int
    models: int | None
    milliseconds: float


@dataclass(frozen=True, slots=True)
class _Known:
    """A tenant's endpoint as a process last read it. The process does not read it again before `until` (monotonic)."""

    stored: StoredUpstream | None
    read_at: float
    until: float


class FindUpstream:
    """The endpoint of a request: the tenant's own, else the installation's.

    Each process keeps it for `key_cache_s` seconds. While the database is away, or takes longer than `patience_s`, the
    last known one is used for `grace_s` seconds.
    """

    def __init__(
        self,
        storage: UpstreamStorage,
        installation: Upstream | None,
        *,
        key_cache_s: float,
        patience_s: float,
        grace_s: float,
    ) -> None:
        self._storage = storage
        self._installation = installation
        self._ttl = key_cache_s
        self._patience = patience_s
        self._grace = grace_s
        self._cache: OrderedDict[UUID, _Known] = OrderedDict()
        self._reading: dict[UUID, asyncio.Task[StoredUpstream | None]] = {}

    async def find_upstream(self, principal: Principal, own_authorization: str | None = None) -> Upstream:
        """Return the endpoint. `own_authorization`: the caller's header X-Upstream-Authorization, instead of the key.

        Raise NoUpstream, UpstreamKeyUnreadable, InvalidInput for a header that cannot be sent, or DatabaseUnavailable.
        """
        if own_authorization is not None:
            check_authorization("X-Upstream-Authorization", own_authorization)
        stored = await self._find_stored(principal)
        upstream = choose_upstream(stored, self._installation, own_authorization)
        return replace(upstream, tenant=str(principal.tenant_id))

    async def _find_stored(self, principal: Principal) -> StoredUpstream | None:
        started = time.monotonic()
        known = self._cache.get(principal.tenant_id)
        if known is not None and started < known.until:
            return known.stored
        reading = self._start_reading(principal)
        if known is None or started - known.read_at > self._grace:
            return await asyncio.shield(reading)
        await asyncio.wait({reading}, timeout=self._patience)
        if reading.done() and not isinstance(reading.exception(), DatabaseUnavailable):
            return reading.result()
        if self._cache.get(principal.tenant_id) is known:
            self._remember(principal.tenant_id, replace(known, until=time.monotonic() + RETRY_S))
        return known.stored

    def _start_reading(self, principal: Principal) -> "asyncio.Task[StoredUpstream | None]":
        """Return the task that reads the tenant's endpoint, one at a time. It goes on when its callers give up."""
        reading = self._reading.get(principal.tenant_id)
        if reading is None:
            reading = asyncio.create_task(self._read_stored(principal))
            self._reading[principal.tenant_id] = reading
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be waiting
        return reading

    async def _read_stored(self, principal: Principal) -> StoredUpstream | None:
        started = time.monotonic()
        try:
            stored = await self._storage.get_upstream(principal)
            self._remember(principal.tenant_id, _Known(stored, started, started + self._ttl))
            return stored
        finally:
            del self._reading[principal.tenant_id]

    def _remember(self, tenant_id: UUID, known: _Known) -> None:
        self._cache[tenant_id] = known
        self._cache.move_to_end(tenant_id)
        if len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)


class ManageUpstreams:
    """The operator's use-cases of a tenant's endpoint."""

    def __init__(self, storage: UpstreamStorage, installation: Upstream | None, client: UpstreamClient) -> None:
        self._storage = storage
        self._installation = installation
        self._client = client

    async def set_upstream(self, tenant_id: UUID, base_url: str, api_key: str) -> None:
        """Store a tenant's endpoint. `api_key`: empty if the endpoint needs none.

        Raise InvalidInput for a key that cannot be sent, UpstreamNotAllowed for an address that is refused,
        UpstreamUnreachable if the name of the host is unknown, NotFound for an unknown tenant.
        """
        if api_key:
            check_authorization("the key", api_key)
        await self._client.check_address(Upstream(base_url, api_key))
        await self._storage.set_upstream(Principal(tenant_id), base_url, api_key)

    async def show_upstream(self, tenant_id: UUID) -> ShownUpstream | None:
        """Return a tenant's own endpoint without its key, None if it has none."""
        stored = await self._storage.get_upstream(Principal(tenant_id))
        if stored is None:
            return None
        return ShownUpstream(stored.base_url, _describe_key(stored.api_key), stored.updated_at)

    async def clear_upstream(self, tenant_id: UUID) -> bool:
        """Delete a tenant's own endpoint with its key; return False if it had none."""
        return await self._storage.clear_upstream(Principal(tenant_id))

    async def test_upstream(self, tenant_id: UUID) -> UpstreamAnswer:
        """Ask the endpoint that a tenant uses for its models. Raise the errors of FindUpstream and UpstreamClient."""
        stored = await self._storage.get_upstream(Principal(tenant_id))
        upstream = choose_upstream(stored, self._installation, None)
        started = time.perf_counter()
        reply = await self._client.open_call(upstream, "GET", "/models", [("accept", "application/json")])
        try:
            body = await _read_body(reply)
        finally:
            await reply.close()
        milliseconds = (time.perf_counter() - started) * 1000
        return UpstreamAnswer(upstream.base_url, reply.status, _count_models(body), milliseconds)


def choose_upstream(stored: StoredUpstream | None, installation: Upstream | None, own: str | None) -> Upstream:
    """Return the tenant's endpoint, else the installation's. `own` is sent instead of its key.

    Raise NoUpstream, or UpstreamKeyUnreadable if the key is needed and cannot be decrypted.
    """
    if stored is None:
        if installation is None:
            raise NoUpstream
        return installation if own is None else replace(installation, api_key="", authorization=own)
    if own is not None:
        return Upstream(stored.base_url, authorization=own)
    if stored.api_key is None:
        raise UpstreamKeyUnreadable
    return Upstream(stored.base_url, stored.api_key)


def check_authorization(what: str, value: str) -> None:
    """Raise InvalidInput, which does not quote the value, unless a header can carry it."""
    if not 1 <= len(value) <= MAX_AUTHORIZATION or not value.isascii() or not value.isprintable():
        raise InvalidInput(f"{what} must be 1 to {MAX_AUTHORIZATION} printable ASCII characters")


def _describe_key(api_key: str | None) -> str:
    if not api_key:
        return "unreadable" if api_key is None else "none"
    return f"set, ends in {api_key[-TAIL:]}" if len(api_key) >= LONG_KEY else "set"


async def _read_body(reply: UpstreamReply) -> bytes:
    body = bytearray()
    async for chunk in reply.stream_body():
        body += chunk
        if len(body) > MAX_MODELS_BYTES:
            raise UpstreamUnusable(f"The list of models is longer than {MAX_MODELS_BYTES} bytes.")
    return bytes(body)


def _count_models(body: bytes) -> int | None:
    try:
        models = json.loads(body)["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return len(models) if isinstance(models, list) else None
