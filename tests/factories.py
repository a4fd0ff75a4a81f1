"""What tests build: tenants with keys, clients, memories, a clock that moves, a server on loopback."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from starlette.types import ASGIApp

from app.api.main import create_app
from app.api.transport.connections import Bounds
from app.api.transport.server import HttpServer
from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.domain.memory.memory import NewMemory
from app.domain.outages import EmbedderUnavailable
from app.domain.principal import Principal
from app.ports import Embedder, Embedding, Vector

_numbers = itertools.count(1)


class Clock:
    """Real time, plus whatever a test adds."""

    def __init__(self) -> None:
        self._offset = timedelta()

    def now(self) -> datetime:
        """The present instant, moved."""
        return datetime.now(UTC) + self._offset

    def move(self, **by: float) -> None:
        """Move by a timedelta's arguments."""
        self._offset += timedelta(**by)


class KeepOpen:
    """An embedder shared by many applications: closing one does not close it. `failing` makes it fail."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.model = inner.model
        self.dimension = inner.dimension
        self.gives_tokens = inner.gives_tokens
        self.failing = False

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """As the inner one, or EmbedderUnavailable."""
        if self.failing:
            raise EmbedderUnavailable()
        return await self._inner.embed_texts(texts)

    async def embed_query(self, text: str) -> Vector:
        """As the inner one, or EmbedderUnavailable."""
        if self.failing:
            raise EmbedderUnavailable()
        return await self._inner.embed_query(text)

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """As the inner one, or EmbedderUnavailable."""
        if self.failing:
            raise EmbedderUnavailable()
        return await self._inner.encode_texts(texts)

    async def encode_query(self, text: str) -> Embedding:
        """As the inner one, or EmbedderUnavailable."""
        if self.failing:
            raise EmbedderUnavailable()
        return await self._inner.encode_query(text)

    async def close(self) -> None:
        """Nothing: the session closes the inner one."""


@dataclass(frozen=True)
class Caller:
    """A key and the scope it stands for."""

    key: str
    scope: Principal

    @property
    def headers(self) -> dict[str, str]:
        """What it sends."""
        return {"Authorization": f"Bearer {self.key}"}

    def client(self, url: str) -> httpx.AsyncClient:
        """An HTTP client that speaks as this caller; close it (`async with`)."""
        return httpx.AsyncClient(base_url=url, headers=self.headers, timeout=30)


async def make_caller(
    app: Application,
    scopes: Sequence[str] = ("admin",),
    agents: Sequence[str] | None = None,
    tenant: Caller | None = None,
) -> Caller:
    """A new key, in a new tenant or in another caller's."""
    tenant_id = tenant.scope.tenant_id if tenant else (await app.tenants.create_tenant(f"tenant {next(_numbers)}")).id
    _key, plain = await app.tenants.create_key(tenant_id, "test", scopes, agents)
    scope = await app.tenants.authenticate(plain)
    assert scope is not None
    return Caller(plain, scope)


def draft(text: str = "Maya drinks oat milk.", **fields: Any) -> NewMemory:
    """A memory to write."""
    return NewMemory(**{"user_id": "maya", "category": "preferences", "text": text} | fields)


def body(text: str = "Maya drinks oat milk.", **fields: Any) -> dict[str, Any]:
    """The same as a body for POST /memory."""
    return {"user_id": "maya", "category": "preferences", "text": text} | fields


@asynccontextmanager
async def serve(settings: Settings, doubles: Doubles | None = None, port: int = 0) -> AsyncIterator[str]:
    """A real server on a free loopback port, or on this one; answers its base URL."""
    async with serve_app(create_app(settings, doubles), port) as url:
        yield url


@asynccontextmanager
async def replica(settings: Settings, doubles: Doubles | None = None) -> AsyncIterator[tuple[str, Application]]:
    """The same with what it is made of: to look inside and to do at once what it does in the background."""
    app = create_app(settings, doubles)
    async with serve_app(app) as url:
        yield url, app.state.application


@asynccontextmanager
async def serve_app(app: ASGIApp, port: int = 0, bounds: Bounds | None = None) -> AsyncIterator[str]:
    """A real server of this application."""
    server = HttpServer(app, bounds)
    await server.start("127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        await server.stop()
