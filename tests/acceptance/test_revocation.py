"""A revoked key on two real servers of one database: both refuse it within five seconds on every route.

That includes requests that began before.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.mcp.bridge import HEADERS
from app.ports import Embedder
from tests.acceptance.processes import REPOSITORY, environment, free_port, mnema
from tests.api.calls import remember, sql
from tests.conftest import Database, model_cache
from tests.factories import Caller, body, make_caller

WITHIN_S = 30
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@asynccontextmanager
async def replica(database: Database, home: Path) -> AsyncIterator[str]:
    """Start a server process as operators do, with the shipped settings; yield its URL."""
    port = str(free_port())
    env = environment(MNEMA_DATABASE_URL=database.app, MNEMA_HOME=home, MNEMA_MODEL_CACHE=model_cache())
    command = ["-m", "app.cli.main", "serve", "--port", port]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=REPOSITORY, env=env, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            await until(lambda: answers(client), 120)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/health")).status_code == 200
    except httpx.TransportError:
        return False


async def until(met: Callable[[], Awaitable[bool]], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not await met():  # noqa: ASYNC110 - another process's state
            await asyncio.sleep(0.05)


@dataclass
class Pair:
    """Two replicas, a key that both have cached, and the means to revoke it."""

    urls: list[str]
    key: Caller
    database: Database

    async def revoke(self) -> None:
        """Revoke the key by the command line, as operators do. Both replicas must refuse it 5 seconds later."""
        scope = self.key.scope
        arguments = ("key", "revoke", str(scope.key_id), "--tenant", str(scope.tenant_id))
        done = await mnema(*arguments, MNEMA_DATABASE_URL=self.database.app)
        assert done.returncode == 0, done.stderr
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*(until(partial(self.refused, url), 2 * WITHIN_S) for url in self.urls))

    async def refused(self, url: str) -> bool:
        async with self.key.client(url) as client:
            found = [await client.get("/memory"), await client.post("/mcp", json=LIST, headers=HEADERS)]
        return [response.status_code for response in found] == [401, 401]


@pytest.fixture
async def pair(app: Application, caller: Caller, database: Database, tmp_path: Path) -> AsyncIterator[Pair]:
    key = await make_caller(app, ["query", "write"], tenant=caller)
    async with replica(database, tmp_path) as one, replica(database, tmp_path) as two:
        for url in (one, two):
            async with key.client(url) as client:
                await remember(client)
                assert (await client.post("/mcp", json=LIST, headers=HEADERS)).status_code == 200
        yield Pair([one, two], key, database)


@pytest.mark.long
async def test_both_replicas_refuse_a_revoked_key_and_no_other(pair: Pair, caller: Caller) -> None:
    await pair.revoke()
    for url in pair.urls:
        async with caller.client(url) as client:
            assert (await client.get("/memory")).status_code == 200


def halves(content: bytes, between: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield a body whose second half follows the event."""

    async def sent() -> AsyncIterator[bytes]:
        yield content[: len(content) // 2]
        await between.wait()
        yield content[len(content) // 2 :]

    return sent()


@pytest.mark.long
async def test_what_was_being_sent_when_the_key_was_revoked_is_not_done(pair: Pair) -> None:
    lines = b"".join(json.dumps(body(f"Maya visits town {n}.")).encode() + b"\n" for n in range(300))
    call = {"name": "memory.remember", "arguments": body("Maya visits the harbour.")}
    tool = json.dumps(LIST | {"method": "tools/call", "params": call}).encode()
    revoked = asyncio.Event()
    async with pair.key.client(pair.urls[0]) as client:
        sizes = {"Content-Length": str(len(tool))}
        bulk = asyncio.create_task(client.post("/memory/bulk", content=halves(lines, revoked)))
        remembered = asyncio.create_task(client.post("/mcp", content=halves(tool, revoked), headers=HEADERS | sizes))
        await asyncio.sleep(0.5)  # both have begun; later ones would be refused as well
        await pair.revoke()
        revoked.set()
        # the lines and the tool may notice before the request ends; an answer that has begun may break off
        with suppress(httpx.RemoteProtocolError):
            if (written := await bulk).status_code != 401:
                codes = [json.loads(line)["error"]["code"] for line in written.text.splitlines()]
                assert codes == ["unauthenticated"] * 300
        if (told := await remembered).status_code != 401:
            assert told.json()["result"]["structuredContent"]["code"] == "unauthenticated"
    assert await sql(pair.database, "SELECT 1 FROM memories WHERE text LIKE '%visits%'") == []


@pytest.mark.long
async def test_an_export_breaks_off_when_the_key_is_revoked(pair: Pair) -> None:
    await sql(
        pair.database,
        "INSERT INTO events (tenant_id, id, op, node, status, user_id, thread_id) "
        "SELECT $1, gen_random_uuid(), 'create', 'hotpath', 'ok', 'maya', repeat('x', 4000) "
        "FROM generate_series(1, 20000)",
        pair.key.scope.tenant_id,
    )
    async with pair.key.client(pair.urls[1]) as client, client.stream("GET", "/users/maya/export") as response:
        assert response.status_code == 200
        lines = response.aiter_lines()
        assert json.loads(await anext(lines))["kind"] == "user"
        await pair.revoke()
        with pytest.raises(httpx.RemoteProtocolError):
            async for _line in lines:
                pass


async def test_a_key_is_not_remembered_beyond_its_expiry(settings: Settings, embedder: Embedder) -> None:
    async with build_application(settings.model_copy(update={"key_cache_s": 600}), Doubles(embedder=embedder)) as app:
        tenant = await app.tenancy.tenants.create_tenant("short")
        expires_at = datetime.now(UTC) + timedelta(seconds=1)
        _key, plain = await app.tenancy.tenants.create_key(tenant.id, "test", ["query"], expires_at=expires_at)
        assert await app.tenancy.tenants.authenticate(plain) is not None

        async def refused() -> bool:
            return await app.tenancy.tenants.authenticate(plain) is None

        await until(refused, 120)
