"""Factories for tests: tenants with keys, clients, memories, a movable clock and a server on loopback."""

import itertools
import time
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
from app.config.server_worker import ServerWorker
from app.config.settings import Settings
from app.domain.memory.memory import NewMemory
from app.domain.outages import EmbedderUnavailable
from app.domain.principal import Principal
from app.ports import Embedder, Embedding, Vector
from app.providers.clock import GuardedClock

_numbers = itertools.count(1)


@dataclass
class Machine:
    """The clocks of a process's machine: `passed` is the time that tests let pass, `error` the fault of its setting."""

    passed: timedelta = timedelta()
    error: timedelta = timedelta()

    def now(self) -> datetime:
        """Return the time that the machine shows."""
        return datetime.now(UTC) + self.passed + self.error

    def elapsed_s(self) -> float:
        """Return the seconds that really passed, and those that tests let pass."""
        return time.monotonic() + self.passed.total_seconds()


class Clock(GuardedClock):
    """The guarded clock, over clocks that tests move. The database's is right unless a test sets it wrong."""

    def __init__(self) -> None:
        self._machine = Machine()
        self._database_error = timedelta()
        super().__init__(self._machine, self._read_moved)

    async def _read_moved(self) -> datetime:
        return datetime.now(UTC) + self._machine.passed + self._database_error

    def move(self, **by: float) -> None:
        """Let time pass, given as a timedelta's arguments: all clocks move."""
        self._machine.passed += timedelta(**by)

    def set_process_wrong(self, **by: float) -> None:
        """Set the process's machine wrong by a timedelta's arguments; none sets it right."""
        self._machine.error = timedelta(**by)

    def set_database_wrong(self, **by: float) -> None:
        """Set the database's machine wrong by a timedelta's arguments; none sets it right."""
        self._database_error = timedelta(**by)

    def move_to_noon(self) -> None:
        """Move the clock forward to the next noon (UTC), so that a test of hours stays within one day."""
        self.move(hours=(36 - self.now().hour) % 24)


class KeepOpen:
    """An embedder shared by many applications, which cannot close it. `failing` makes it fail."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.model = inner.model
        self.dimension = inner.dimension
        self.gives_tokens = inner.gives_tokens
        self.failing = False

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return the inner embedder's result, or raise EmbedderUnavailable."""
        if self.failing:
            raise EmbedderUnavailable()
        return await self._inner.embed_texts(texts)

    async def embed_query(self, text: str) -> Vector:
        """Return the inner embedder's result, or raise EmbedderUnavailable."""
        if self.failing:
            raise EmbedderUnavailable()
        return await self._inner.embed_query(text)

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """Return the inner embedder's result, or raise EmbedderUnavailable."""
        if self.failing:
            raise EmbedderUnavailable()
        return await self._inner.encode_texts(texts)

    async def encode_query(self, text: str) -> Embedding:
        """Return the inner embedder's result, or raise EmbedderUnavailable."""
        if self.failing:
            raise EmbedderUnavailable()
        return await self._inner.encode_query(text)

    async def close(self) -> None:
        """Do nothing: the session closes the inner embedder."""


@dataclass(frozen=True)
class Caller:
    """A key and its principal."""

    key: str
    scope: Principal

    @property
    def headers(self) -> dict[str, str]:
        """The headers of this caller's requests."""
        return {"Authorization": f"Bearer {self.key}"}

    def client(self, url: str) -> httpx.AsyncClient:
        """Return an HTTP client with this caller's key; close it (`async with`)."""
        return httpx.AsyncClient(base_url=url, headers=self.headers, timeout=30)


async def make_caller(
    app: Application,
    scopes: Sequence[str] = ("admin",),
    agents: Sequence[str] | None = None,
    tenant: Caller | None = None,
    *,
    names_users: bool = False,
) -> Caller:
    """Return a new key, in a new tenant or in another caller's.

    A key that reads or writes may read all users, because few tests name one, unless it `names_users`.
    """
    if not names_users and not {"query", "write"}.isdisjoint(scopes) and not {"admin", "read_all"} & set(scopes):
        scopes = (*scopes, "read_all")
    tenant_id = (
        tenant.scope.tenant_id if tenant else (await app.tenancy.tenants.create_tenant(f"tenant {next(_numbers)}")).id
    )
    _key, plain = await app.tenancy.tenants.create_key(tenant_id, "test", scopes, agents)
    scope = await app.tenancy.tenants.authenticate(plain)
    assert scope is not None
    return Caller(plain, scope)


def draft(text: str = "Maya drinks oat milk.", **fields: Any) -> NewMemory:
    """Return a memory to write."""
    return NewMemory(**{"user_id": "maya", "category": "preferences", "text": text} | fields)


def body(text: str = "Maya drinks oat milk.", **fields: Any) -> dict[str, Any]:
    """Return the same memory as a body of POST /memory."""
    return {"user_id": "maya", "category": "preferences", "text": text} | fields


@asynccontextmanager
async def serve(settings: Settings, doubles: Doubles | None = None, port: int = 0) -> AsyncIterator[str]:
    """Run a real server on a free loopback port, or on the given one; yield its base URL."""
    async with serve_app(create_app(settings, doubles), port) as url:
        yield url


@asynccontextmanager
async def replica(
    settings: Settings, doubles: Doubles | None = None, worker: ServerWorker | None = None
) -> AsyncIterator[tuple[str, Application]]:
    """Run a server; yield it with its application, to inspect it and to run its background work at once."""
    app = create_app(settings, doubles, worker)
    async with serve_app(app) as url:
        yield url, app.state.application


@asynccontextmanager
async def serve_app(app: ASGIApp, port: int = 0, bounds: Bounds | None = None) -> AsyncIterator[str]:
    """Run a real server of this application and yield its URL."""
    server = HttpServer(app, bounds)
    await server.start("127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        await server.stop()
