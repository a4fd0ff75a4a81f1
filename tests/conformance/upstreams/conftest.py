"""Clients of chat endpoints that a test closes at its end."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from app.domain.chat.upstream import Upstream
from app.providers.upstreams.addresses import AddressRules
from app.providers.upstreams.client import HttpUpstreamClient, UpstreamBounds

MakeClient = Callable[..., HttpUpstreamClient]


@pytest.fixture
async def make_client() -> AsyncIterator[MakeClient]:
    """Return a function that makes a client: `rules`, `resolve`, `tls`, or any bound by its name."""
    made: list[HttpUpstreamClient] = []

    def make(
        rules: AddressRules | None = None, resolve: Any = None, tls: Any = None, **bounds: float
    ) -> HttpUpstreamClient:
        rules = rules or AddressRules(private=True)
        made.append(HttpUpstreamClient(rules, UpstreamBounds(**bounds), resolve, tls))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for client in made:
        await client.close()


def at_port(port: int, path: str = "/v1", key: str = "") -> Upstream:
    """Return the endpoint at a port of loopback."""
    return Upstream(f"http://127.0.0.1:{port}{path}", key)


async def post(
    client: HttpUpstreamClient, upstream: Upstream, body: bytes = b"{}", headers: Sequence[tuple[str, str]] = ()
) -> tuple[int, bytes]:
    """Send a chat and return status and whole body."""
    reply = await client.open_call(upstream, "POST", "/chat/completions", headers, body)
    try:
        return reply.status, b"".join([chunk async for chunk in reply.stream_body()])
    finally:
        await reply.close()
