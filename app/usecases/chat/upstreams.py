"""Chat endpoints: which one a tenant's conversations go to, and how operators set it."""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias, get_args
from uuid import UUID

from app.domain.chat.upstream import ANTHROPIC, OPENAI, Upstream, UpstreamDialect
from app.domain.errors import InvalidInput
from app.domain.outages import DatabaseUnavailable, NoUpstream, UpstreamKeyUnreadable, UpstreamUnusable
from app.domain.principal import Principal
from app.ports import UpstreamClient
from app.storage.chat.upstreams import StoredUpstreams, UpstreamStorage

Installed: TypeAlias = Mapping[UpstreamDialect, Upstream]
"""The installation's own endpoints."""
MAX_AUTHORIZATION = 4096
"""The longest key, and the longest value of X-Upstream-Authorization."""
MAX_CACHED = 10_000
MAX_MODELS_BYTES = 4 << 20
"""The largest list of models that is read."""
MAX_MODELS = 10_000
"""The most models of a list."""
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
class ModelList:
    """The models of an endpoint. `has_more`: Anthropic's API has another page."""

    models: Sequence[Any]
    has_more: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """A tenant's endpoints as a process last read them. It does not read them again before `until` (monotonic)."""

    stored: StoredUpstreams
    read_at: float
    until: float


class FindUpstream:
    """The endpoint of a request: the tenant's own, else the installation's.

    Each process keeps a tenant's for `key_cache_s` seconds. While the database is away, or takes longer than
    `patience_s`, the last known ones are used for `grace_s` seconds.
    """

    def __init__(
        self,
        storage: UpstreamStorage,
        installation: Installed,
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
        self._reading: dict[UUID, asyncio.Task[StoredUpstreams]] = {}

    async def find_upstream(
        self, principal: Principal, own_authorization: str | None = None, dialect: UpstreamDialect = OPENAI
    ) -> Upstream:
        """Return the endpoint of a dialect.

        `own_authorization`: the caller's header X-Upstream-Authorization, instead of the key.
        Raise NoUpstream, UpstreamKeyUnreadable, InvalidInput for a header that cannot be sent, or DatabaseUnavailable.
        """
        if own_authorization is not None:
            check_authorization("X-Upstream-Authorization", own_authorization)
        stored = await self._find_stored(principal)
        upstream = choose_upstream(dialect, stored, self._installation, own_authorization)
        return replace(upstream, tenant=str(principal.tenant_id))

    async def list_dialects(self, principal: Principal) -> list[UpstreamDialect]:
        """Return the dialects that have an endpoint for this tenant. Raise DatabaseUnavailable."""
        stored = await self._find_stored(principal)
        return [dialect for dialect in get_args(UpstreamDialect) if dialect in stored or dialect in self._installation]

    async def _find_stored(self, principal: Principal) -> StoredUpstreams:
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

    def _start_reading(self, principal: Principal) -> "asyncio.Task[StoredUpstreams]":
        """Return the task that reads the tenant's endpoints, one at a time. It goes on when its callers give up."""
        reading = self._reading.get(principal.tenant_id)
        if reading is None:
            reading = asyncio.create_task(self._read_stored(principal))
            self._reading[principal.tenant_id] = reading
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be waiting
        return reading

    async def _read_stored(self, principal: Principal) -> StoredUpstreams:
        started = time.monotonic()
        try:
            stored = await self._storage.list_upstreams(principal)
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
    """The operator's use-cases of a tenant's endpoints."""

    def __init__(self, storage: UpstreamStorage, installation: Installed, client: UpstreamClient) -> None:
        self._storage = storage
        self._installation = installation
        self._client = client

    async def set_upstream(
        self, tenant_id: UUID, base_url: str, api_key: str, dialect: UpstreamDialect = OPENAI
    ) -> None:
        """Store a tenant's endpoint. `api_key`: empty if the endpoint needs none.

        Raise InvalidInput for a key that cannot be sent, UpstreamNotAllowed for an address that is refused,
        UpstreamUnreachable if the name of the host is unknown, NotFound for an unknown tenant.
        """
        if api_key:
            check_authorization("the key", api_key)
        await self._client.check_address(Upstream(base_url, api_key))
        await self._storage.set_upstream(Principal(tenant_id), base_url, api_key, dialect)

    async def show_upstream(self, tenant_id: UUID, dialect: UpstreamDialect = OPENAI) -> ShownUpstream | None:
        """Return a tenant's own endpoint without its key, None if it has none."""
        stored = (await self._storage.list_upstreams(Principal(tenant_id))).get(dialect)
        if stored is None:
            return None
        return ShownUpstream(stored.base_url, _describe_key(stored.api_key), stored.updated_at)

    async def clear_upstream(self, tenant_id: UUID, dialect: UpstreamDialect = OPENAI) -> bool:
        """Delete a tenant's own endpoint with its key; return False if it had none."""
        return await self._storage.clear_upstream(Principal(tenant_id), dialect)

    async def test_upstream(self, tenant_id: UUID, dialect: UpstreamDialect = OPENAI) -> UpstreamAnswer:
        """Ask the endpoint that a tenant uses for its models. Raise the errors of FindUpstream and UpstreamClient."""
        stored = await self._storage.list_upstreams(Principal(tenant_id))
        upstream = choose_upstream(dialect, stored, self._installation, None)
        started = time.perf_counter()
        reply = await self._client.open_call(upstream, "GET", "/models", [("accept", "application/json")])
        try:
            body = b"".join([chunk async for chunk in bound_models(reply.stream_body())])
        finally:
            await reply.close()
        milliseconds = (time.perf_counter() - started) * 1000
        listed = read_models(body, dialect)
        count = None if listed is None else len(listed.models)
        return UpstreamAnswer(upstream.base_url, reply.status, count, milliseconds)


def choose_upstream(
    dialect: UpstreamDialect, stored: StoredUpstreams, installation: Installed, own: str | None
) -> Upstream:
    """Return the tenant's endpoint of a dialect, else the installation's. `own` is sent instead of its key.

    Raise NoUpstream, or UpstreamKeyUnreadable if the key is needed and cannot be decrypted.
    """
    chosen = stored.get(dialect)
    if chosen is None:
        if (installed := installation.get(dialect)) is None:
            raise NoUpstream(_describe_missing(dialect))
        return installed if own is None else replace(installed, api_key="", authorization=own)
    if own is not None:
        return Upstream(chosen.base_url, authorization=own, dialect=dialect)
    if chosen.api_key is None:
        raise UpstreamKeyUnreadable
    return Upstream(chosen.base_url, chosen.api_key, dialect=dialect)


def _describe_missing(dialect: UpstreamDialect) -> str | None:
    """Return what is missing; None for the usual dialect, which the error describes itself."""
    if dialect == OPENAI:
        return None
    return (
        f"No chat endpoint of the dialect {dialect!r} is configured for this tenant; an operator sets one with "
        f"`mnema tenant upstream set --dialect {dialect}`."
    )


def check_authorization(what: str, value: str) -> None:
    """Raise InvalidInput, which does not quote the value, unless a header can carry it."""
    if not 1 <= len(value) <= MAX_AUTHORIZATION or not value.isascii() or not value.isprintable():
        raise InvalidInput(f"{what} must be 1 to {MAX_AUTHORIZATION} printable ASCII characters")


def _describe_key(api_key: str | None) -> str:
    if not api_key:
        return "unreadable" if api_key is None else "none"
    return f"set, ends in {api_key[-TAIL:]}" if len(api_key) >= LONG_KEY else "set"


async def bound_models(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks of a list of models. Raise UpstreamUnusable beyond MAX_MODELS_BYTES."""
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > MAX_MODELS_BYTES:
            raise UpstreamUnusable(f"The list of models is longer than {MAX_MODELS_BYTES} bytes.")
        yield chunk


def read_models(body: bytes, dialect: UpstreamDialect) -> ModelList | None:
    """Return the models of an answer, None if it is no list of models. Raise UpstreamUnusable beyond MAX_MODELS."""
    try:
        answer = json.loads(body)
        models = answer["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(models, list):
        return None
    if len(models) > MAX_MODELS:
        raise UpstreamUnusable(f"The list of models has more than {MAX_MODELS}.")
    return ModelList(models, dialect == ANTHROPIC and answer.get("has_more") is True)
