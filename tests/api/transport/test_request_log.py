"""The request log: one line for each request, failed probes only, and no traceback unless the server is at fault."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.ports import Embedder
from tests.api.calls import sql
from tests.conftest import Database
from tests.factories import Caller, draft, make_caller, serve

PROBES = ["/health", "/ready", "/metrics"]
TEMPLATE = "/users/{user_id}/export"
Lines = Sequence[Any]


async def until(lines: Lines, event: str, path: str, status: int | None = None) -> None:
    """Wait until the log has this event for the path, because a line may be written after its answer."""

    def told(line: Any) -> bool:
        return (line["event"], line.get("path")) == (event, path) and status in (None, line.get("status"))

    async with asyncio.timeout(20):
        while not any(map(told, lines)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def requests(lines: Lines) -> list[tuple[str, int, str]]:
    return [(line["path"], line["status"], line["log_level"]) for line in lines if line["event"] == "request"]


async def call(url: str, paths: Sequence[str]) -> list[tuple[str, int, str]]:
    """Return the log lines of one GET of each path."""
    with capture_logs() as lines:
        async with httpx.AsyncClient(base_url=url) as client:
            for path in paths:
                await client.get(path)
                if path not in PROBES:
                    await until(lines, "request", path)
    return requests(lines)


@pytest.mark.long
async def test_probes_that_go_well_are_told_with_debug_only(
    settings: Settings, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(settings, Doubles(embedder=embedder)) as url:
        assert await call(url, [*PROBES, "/memory"]) == [("/memory", 401, "info")]
    monkeypatch.setenv("MNEMA_LOG_LEVEL", "debug")
    async with serve(settings, Doubles(embedder=embedder)) as url:
        told = await call(url, [*PROBES, "/memory"])
        assert told == [*((path, 200, "debug") for path in PROBES), ("/memory", 401, "info")]


@pytest.mark.long
async def test_a_probe_that_is_refused_is_told(settings: Settings, embedder: Embedder) -> None:
    closed = settings.model_copy(update={"metrics_token": SecretStr("of the scraper")})
    async with serve(closed, Doubles(embedder=embedder)) as url:
        told = await call(url, ["/metrics", "/memory"])
        assert told == [("/metrics", 401, "info"), ("/memory", 401, "info")]


@pytest.mark.long
async def test_an_export_that_breaks_off_is_one_warning_without_a_trace(
    app: Application, caller: Caller, server: str, database: Database
) -> None:
    reader = await make_caller(app, ["query"], tenant=caller)
    await sql(
        database,
        "INSERT INTO events (tenant_id, id, op, node, status, user_id, thread_id) "
        "SELECT $1, gen_random_uuid(), 'create', 'hotpath', 'ok', 'maya', repeat('x', 4000) "
        "FROM generate_series(1, 8000)",
        caller.scope.tenant_id,
    )
    await app.memory.write.write_memory(caller.scope, draft())
    with capture_logs() as lines:
        async with reader.client(server) as client, client.stream("GET", "/users/maya/export") as response:
            content = response.aiter_lines()
            await anext(content)
            assert reader.scope.key_id is not None
            await app.tenancy.tenants.revoke_key(reader.scope.tenant_id, reader.scope.key_id)
            while (await client.get("/memory")).status_code != 401:  # noqa: ASYNC110 - the server's cache of keys
                await asyncio.sleep(0.1)
            with pytest.raises(httpx.RemoteProtocolError):
                async for _line in content:
                    pass
        await until(lines, "request", TEMPLATE)
    bad = [line for line in lines if line["log_level"] not in ("debug", "info")]
    expected = {"event": "answer_broken_off", "log_level": "warning", "code": "unauthenticated"}
    assert bad == [expected | {"method": "GET", "path": TEMPLATE}]


async def test_no_line_has_an_id_of_a_person_or_a_thread(http: httpx.AsyncClient) -> None:
    """Cover requests that are answered, refused early or late, or have no route."""
    asked = [
        ("GET", "/users/lovelace/export", 404, TEMPLATE),
        ("POST", "/users/lovelace/erase", 404, "/users/{user_id}/erase"),
        ("GET", "/threads/lovelace/delta", 200, "/threads/{thread_id}/delta"),
        ("GET", "/memory?user_id=lovelace", 200, "/memory"),
        ("PUT", "/users/lovelace/export", 405, TEMPLATE),
        ("GET", "/lovelace", 404, "unmatched"),
        ("GET", "/users/lovelace/nothing", 404, "unmatched"),
    ]
    with capture_logs() as lines:
        for method, path, status, template in asked:
            assert (await http.request(method, path)).status_code == status, path
            await until(lines, "request", template, status)
        encoded = {"Content-Encoding": "gzip"}
        assert (await http.post("/users/lovelace/erase", content=b"x", headers=encoded)).status_code == 415
        await until(lines, "request", "/users/{user_id}/erase", 415)
    assert requests(lines)[:-1] == [(template, status, "info") for _, _, status, template in asked]
    assert "lovelace" not in str(lines)
