"""The sender of webhooks: the client of chat endpoints, with its guard of addresses, its pools and its bounds."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import httpx2

from app.domain.chat.upstream import Upstream
from app.domain.errors import UpstreamNotAllowed, WebhookNotAllowed
from app.domain.outages import ServerBusy, UpstreamBroken, UpstreamTimeout, UpstreamUnreachable, UpstreamUnusable
from app.domain.webhooks.webhook import Attempt
from app.providers.upstreams.addresses import AddressRules, parse_endpoint
from app.providers.upstreams.client import HttpUpstreamClient, UpstreamBounds
from app.providers.upstreams.resolving import Resolve

URL_RULE: Final = "url must be an http:// or https:// URL without user name and fragment, of at most 2048 characters"
MAX_URL: Final = 2048
CONNECTIONS: Final = 8
"""Connections of a tenant to one receiver."""
MAX_ANSWER_BYTES: Final = 64 << 10
"""Bytes of an answer that are accepted. Nobody reads them."""
FAILURES: Final = {
    UpstreamTimeout: "timeout",
    UpstreamUnreachable: "unreachable",
    UpstreamBroken: "broken",
    UpstreamUnusable: "refused_answer",
    UpstreamNotAllowed: "not_allowed",
    ServerBusy: "busy",
}
"""The word for each failure without an answer."""


class HttpWebhookSender:
    """A WebhookSender over HTTP/1.1. `timeout_s`: for a whole attempt. `resolve` replaces the system's look-up."""

    def __init__(self, rules: AddressRules, timeout_s: float, resolve: Resolve | None = None) -> None:
        bounds = UpstreamBounds(
            connect_timeout_s=min(5.0, timeout_s),
            first_byte_timeout_s=timeout_s,
            idle_timeout_s=timeout_s,
            max_connections=CONNECTIONS,
            max_answer_bytes=MAX_ANSWER_BYTES,
        )
        self._client = HttpUpstreamClient(rules, bounds, resolve)
        self._timeout_s = timeout_s

    async def check_url(self, url: str) -> None:
        """Raise WebhookNotAllowed if the URL may not be called, or if its host has no address."""
        origin, _path = split_url(url)
        try:
            await self._client.check_address(Upstream(origin))
        except UpstreamNotAllowed as error:
            raise WebhookNotAllowed(error.detail) from None
        except (UpstreamUnreachable, UpstreamTimeout):
            raise WebhookNotAllowed("the name of the URL's host cannot be resolved") from None

    async def send(self, tenant_id: UUID, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> Attempt:
        """Post a body and return the result. Redirects are not followed. Raise RuntimeError inside a transaction."""
        started = time.perf_counter()
        status, error = None, None
        try:
            origin, path = split_url(url)
            async with asyncio.timeout(self._timeout_s):
                upstream = Upstream(origin, tenant=str(tenant_id))
                reply = await self._client.open_call(upstream, "POST", path, headers, body)
                status = reply.status
                await reply.close()
        except TimeoutError:
            error = "timeout"
        except WebhookNotAllowed:
            error = "not_allowed"
        except tuple(FAILURES) as failure:
            error = next(word for kind, word in FAILURES.items() if isinstance(failure, kind))
        if status is not None and not 200 <= status < 300:
            error = "refused"
        return Attempt(status, error, (time.perf_counter() - started) * 1000)

    async def close(self) -> None:
        """Release connections."""
        await self._client.close()


def split_url(url: str) -> tuple[str, str]:
    """Return the origin of a URL, and its path with its query. Raise WebhookNotAllowed if it is none."""
    try:
        parsed = httpx2.URL(url)
        path = parsed.raw_path.decode("ascii")
    except (httpx2.InvalidURL, UnicodeError, ValueError):
        raise WebhookNotAllowed(URL_RULE) from None
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.fragment:
        raise WebhookNotAllowed(URL_RULE)
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable():
        raise WebhookNotAllowed(URL_RULE)
    host = parsed.raw_host.decode("ascii")
    port = "" if parsed.port is None else f":{parsed.port}"
    origin = f"{parsed.scheme}://{f'[{host}]' if ':' in host else host}{port}"
    try:
        parse_endpoint(origin)
    except UpstreamNotAllowed:
        raise WebhookNotAllowed(URL_RULE) from None
    return origin, path
