"""Calls of chat endpoints: streams with bounded pools, sizes and time-outs.

Each tenant and origin has an HTTP client of its own, so that endpoints share neither connections nor certificates'
names, and no tenant can take the connections of another.
"""

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from app.domain.chat.upstream import ANTHROPIC, Upstream
from app.domain.outages import ServerBusy, UpstreamBroken, UpstreamTimeout, UpstreamUnreachable, UpstreamUnusable
from app.providers.outside_stream import OutsideStream
from app.providers.upstreams.addresses import AddressRules, Endpoint, parse_endpoint
from app.providers.upstreams.resolving import CachedResolver, Resolve
from app.transactions import refuse_inside_transaction

MAX_ADDRESSES = 3
"""The most addresses of a host that a call tries to connect to."""
MAX_SURPLUS = 3
"""The most connections with a surplus answer that a call tries."""
OURS = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization"}
    | {"proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Request headers that belong to the connection. They are never taken from a caller."""
VERSION_HEADER = ("anthropic-version", "2023-06-01")
"""The header that Anthropic's API demands, for a caller that sends none."""
MAX_POOLS = 256
KEEPALIVE_S = 4.0
"""The seconds that an idle connection is kept: fewer than servers keep theirs (uvicorn 5), so none is cut in use."""
Place = tuple[str, str, str, int]
"""A tenant, and the scheme, host and port of an origin."""
PASSED_ON = frozenset({"content-type", "request-id", "retry-after", "retry-after-ms", "x-should-retry"})
PASSED_PREFIXES = ("x-ratelimit-", "openai-", "anthropic-")


class HttpUpstreamReply:
    """An UpstreamReply over HTTP. It reads little ahead: the endpoint waits until somebody asks for the rest."""

    def __init__(self, response: httpx2.Response, idle_timeout_s: float, most_bytes: int) -> None:
        self._response = response
        self._idle_timeout_s = idle_timeout_s
        self._most_bytes = most_bytes
        self._body: OutsideStream | None = None
        self._leave: Callable[[], Awaitable[None]] | None = None

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status_code

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The headers that may be passed on, with names in lower case."""
        every = ((name.lower(), value) for name, value in self._response.headers.multi_items())
        return [(name, value) for name, value in every if name in PASSED_ON or name.startswith(PASSED_PREFIXES)]

    async def check_head(self) -> None:
        """Raise UpstreamUnusable, and end the call, if the head announces an answer that cannot be passed on."""
        if (problem := self._find_problem()) is not None:
            await self._response.aclose()
            raise UpstreamUnusable(problem)

    def on_close(self, leave: Callable[[], Awaitable[None]]) -> None:
        """Set what `close` calls once, at the end."""
        self._leave = leave

    def stream_body(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, with the errors that the port describes. Call it once."""
        self._body = OutsideStream(
            self._read_chunks(), self._most_bytes, too_long=UpstreamUnusable(self._too_long), closed=UpstreamBroken()
        )
        return self._body

    async def close(self) -> None:
        """End the call. Unless the body was read to its end, the connection is closed."""
        leave, self._leave = self._leave, None
        try:
            await self._response.aclose()
            if self._body is not None:
                await self._body.aclose()
        finally:
            if leave is not None:
                await leave()

    def _find_problem(self) -> str | None:
        headers = self._response.headers
        if not 200 <= self.status < 300 and not 400 <= self.status < 600:
            return f"The chat endpoint answered {self.status}; redirects are not followed."
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            return "The chat endpoint compressed its answer although it was asked not to."
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._most_bytes:
            return self._too_long
        return None

    @property
    def _too_long(self) -> str:
        return f"The answer of the chat endpoint is longer than {self._most_bytes} bytes."

    async def _read_chunks(self) -> AsyncGenerator[bytes]:
        chunks = self._response.aiter_raw()
        try:
            while (chunk := await self._read_chunk(chunks)) is not None:
                yield chunk
        finally:
            await chunks.aclose()

    async def _read_chunk(self, chunks: AsyncGenerator[bytes]) -> bytes | None:
        try:
            async with asyncio.timeout(self._idle_timeout_s):
                return await anext(chunks, None)
        except TimeoutError:
            raise UpstreamTimeout(
                f"The chat endpoint sent nothing for {self._idle_timeout_s:g} s.", phase="idle"
            ) from None
        except httpx2.TransportError:
            raise UpstreamBroken from None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamBounds:
    """Time-outs in seconds, and sizes. `max_connections` is for each tenant and origin."""

    connect_timeout_s: float = 5.0
    first_byte_timeout_s: float = 120.0
    idle_timeout_s: float = 60.0
    max_connections: int = 100
    max_answer_bytes: int = 32 << 20


class HttpUpstreamClient:
    """An UpstreamClient over HTTP/1.1.

    It connects to the addresses that it has checked, never to a name, so that a name server cannot answer differently
    after the check. `resolve` and `tls` replace the operating system's look-up and authorities.
    """

    def __init__(
        self,
        rules: AddressRules,
        bounds: UpstreamBounds,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._rules = rules
        self._bounds = bounds
        self._resolver = CachedResolver(resolve)
        self._pools = PoolCache(bounds.max_connections, tls)

    async def close(self) -> None:
        """Close connections; later calls raise UpstreamUnreachable."""
        self._resolver.close()
        await self._pools.close()

    async def check_address(self, upstream: Upstream) -> None:
        """Raise UpstreamNotAllowed if the endpoint may not be called, UpstreamUnreachable if its name is unknown."""
        endpoint = parse_endpoint(upstream.base_url)
        try:
            async with asyncio.timeout(self._bounds.connect_timeout_s):
                await self._find_addresses(endpoint, upstream.trusted)
        except TimeoutError:
            raise UpstreamTimeout("The name of the chat endpoint's host was not resolved.", phase="connect") from None

    async def open_call(
        self, upstream: Upstream, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes = b""
    ) -> HttpUpstreamReply:
        """Send a request and return when the head of the answer has arrived, as the port describes."""
        refuse_inside_transaction("The client of chat endpoints")
        endpoint = parse_endpoint(upstream.base_url)
        pool = await self._pools.enter_pool((upstream.tenant, *endpoint.origin))
        try:
            call = _Call(self._bounds, endpoint, method, path, _complete_headers(upstream, endpoint, headers), body)
            response = await self._send_call(call, pool, upstream.trusted)
            reply = HttpUpstreamReply(response, self._bounds.idle_timeout_s, self._bounds.max_answer_bytes)
            await reply.check_head()
        except BaseException:
            await self._pools.leave_pool(pool)
            raise
        reply.on_close(lambda: self._pools.leave_pool(pool))
        return reply

    async def _find_addresses(self, endpoint: Endpoint, trusted: bool) -> list[str]:
        if not trusted:
            self._rules.check_host(endpoint.host)
        addresses = list(await self._resolver.find_addresses(endpoint.host))
        self._rules.check_addresses(addresses, trusted)
        return addresses

    async def _send_call(self, call: "_Call", pool: Pool, trusted: bool) -> httpx2.Response:
        try:
            async with asyncio.timeout(self._bounds.connect_timeout_s) as limit:
                addresses = await self._find_addresses(call.endpoint, trusted)
                return await call.send_to_any(pool, addresses, limit)
        except (TimeoutError, httpx2.TimeoutException):
            if call.waits_for_pool:
                used = f"this tenant uses all of its {self._bounds.max_connections} connections to the chat endpoint"
                raise ServerBusy(used) from None
            raise UpstreamTimeout(call.describe_timeout(), phase=call.phase) from None
        except httpx2.ConnectError as error:
            raise UpstreamUnreachable(_describe_failure(error)) from None
        except httpx2.TransportError:
            raise UpstreamBroken("The chat endpoint closed the connection, or did not answer in HTTP.") from None


class _SurplusAnswer(Exception):
    """The answer was there before its question."""


class _Call:
    """One request on its way. `phase` is the one that a time-out belongs to, unless it `waits_for_pool`."""

    def __init__(
        self,
        bounds: UpstreamBounds,
        endpoint: Endpoint,
        method: str,
        path: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
    ) -> None:
        self.endpoint = endpoint
        self.phase = "connect"
        self._bounds = bounds
        self._request = method, path, headers, body
        self.waits_for_pool = False
        self._connecting: Any = None
        self._has_waited = False

    async def send_to_any(self, pool: Pool, addresses: list[str], limit: asyncio.Timeout) -> httpx2.Response:
        """Send the request to the first address that accepts a connection. `limit` is moved once there is one."""
        ordered = pool.order_addresses(addresses)[:MAX_ADDRESSES]
        share = self._bounds.connect_timeout_s / len(ordered)
        for address in ordered[:-1]:
            try:
                return await self._send_past_surplus(pool, address, share, limit)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._send_past_surplus(pool, ordered[-1], None, limit)

    async def _send_past_surplus(
        self, pool: Pool, address: str, connect_s: float | None, limit: asyncio.Timeout
    ) -> httpx2.Response:
        """Send the request, and again if the connection held the answer to nothing. That connection is closed."""
        for _attempt in range(MAX_SURPLUS):
            try:
                return await self._send_to(pool, address, connect_s, limit)
            except _SurplusAnswer:
                continue
        raise UpstreamBroken("The chat endpoint sends answers that nobody asked for.")

    async def _send_to(
        self, pool: Pool, address: str, connect_s: float | None, limit: asyncio.Timeout
    ) -> httpx2.Response:
        async def follow_phase(event: str, info: Any) -> None:
            self.waits_for_pool = False
            if event == "connection.connect_tcp.complete":
                self._connecting = info["return_value"]
            if event == "http11.receive_response_headers.started":
                self._has_waited = False
                asyncio.get_running_loop().call_soon(self._note_turn)
            if event == "http11.receive_response_headers.complete" and not self._has_waited:
                raise _SurplusAnswer  # it came with the answer before, so it was read without a turn of the loop
            if event == "http11.send_request_headers.started" and self.phase == "connect":
                self.phase = "first_byte"
                pool.address = address
                limit.reschedule(asyncio.get_running_loop().time() + self._bounds.first_byte_timeout_s)

        method, path, headers, body = self._request
        self.waits_for_pool = True
        request = httpx2.Request(
            method,
            self.endpoint.make_url(address, path),
            headers=headers,
            content=body,
            extensions={
                "sni_hostname": self.endpoint.host,
                "trace": follow_phase,
                "timeout": httpx2.Timeout(None, connect=connect_s).as_dict(),
            },
        )
        try:
            return await pool.client.send(request, stream=True, auth=None)
        except BaseException:
            await self._drop_connection()
            raise

    def _note_turn(self) -> None:
        self._has_waited = True

    async def _drop_connection(self) -> None:
        """Close the socket of a handshake that was cancelled: httpx2 forgets it, and it would stay open."""
        connecting, self._connecting = self._connecting, None
        if connecting is not None and self.phase == "connect":
            await connecting.aclose()

    def describe_timeout(self) -> str:
        """Return what did not happen in time."""
        if self.phase == "first_byte":
            return f"The chat endpoint began no answer within {self._bounds.first_byte_timeout_s:g} s."
        return f"The chat endpoint took no connection within {self._bounds.connect_timeout_s:g} s."


def _complete_headers(
    upstream: Upstream, endpoint: Endpoint, headers: Sequence[tuple[str, str]]
) -> list[tuple[bytes, bytes]]:
    """Return the headers to send: the caller's, ours, and the endpoint's key unless the caller's have one."""
    sent = [(name.lower(), value) for name, value in headers if name.lower() not in OURS]
    names = {name for name, _ in sent}
    sent += [("host", endpoint.host_header), ("accept-encoding", "identity")]
    if "user-agent" not in names:
        sent.append(("user-agent", "mnema"))
    if upstream.dialect == ANTHROPIC and VERSION_HEADER[0] not in names:
        sent.append(VERSION_HEADER)
    name, value = _credentials(upstream)
    if value and name not in names:
        sent.append((name, value))
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent]


def _credentials(upstream: Upstream) -> tuple[str, str]:
    """Return the header of the endpoint's key, and its value. Anthropic's header has a key without a scheme."""
    if upstream.dialect == ANTHROPIC and " " not in upstream.authorization:
        return "x-api-key", upstream.authorization or upstream.api_key
    bearer = f"Bearer {upstream.api_key}" if upstream.api_key else ""
    return "authorization", upstream.authorization or bearer


def _describe_failure(error: BaseException | None) -> str:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError):
        return "The certificate of the chat endpoint is not valid for its host."
    return "The chat endpoint cannot be reached." if error is None else "The chat endpoint did not agree to TLS."
