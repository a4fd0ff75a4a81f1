"""Calls of chat endpoints: streams with bounded pools, sizes and time-outs."""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from app.domain.chat.upstream import ANTHROPIC, Upstream
from app.domain.outages import ServerBusy, UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from app.ports import refuse_inside_transaction
from app.providers.upstreams.addresses import AddressRules, Endpoint, parse_endpoint
from app.providers.upstreams.pools import Pool, PoolCache
from app.providers.upstreams.reply import HttpUpstreamReply
from app.providers.upstreams.resolving import CachedResolver, Resolve

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
