"""GET /metrics: correct numbers, no names, and no more label values than there are routes."""

import asyncio
import os
import re
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from app.bootstrap import Doubles
from app.config.server_worker import ServerWorker
from app.config.settings import Settings
from app.config.version import VERSION
from app.ports import Embedder
from tests.api.calls import ask, refused, remember, say, sql
from tests.conftest import Database
from tests.factories import Caller, Clock, make_caller, replica, serve

pytestmark = pytest.mark.usefixtures("own")  # the counters cover the whole process

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def read(client: httpx.AsyncClient, url: str = "", **headers: str) -> Samples:
    response = await client.get(f"{url}/metrics", headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(response.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


@pytest.mark.long
async def test_requests_are_counted_by_the_route_s_template(http: httpx.AsyncClient, caller: Caller) -> None:
    before = await read(http)
    for _ in range(3):
        memory = await remember(http, "Maya drinks oat milk.", user_id="Zorblax", thread_id="Zorblax")
    await http.get(f"/memory/{memory['id']}")
    await http.get(f"/memory/{uuid4()}")
    await http.get("/users/Zorblax/export")
    samples = await read(http)

    def more(route: str, method: str, status: int) -> float:
        labels = {"route": route, "method": method, "status": str(status)}
        return value(samples, "mnema_http_requests_total", **labels) - value(
            before, "mnema_http_requests_total", **labels
        )

    assert more("/memory", "POST", 201) == 3
    assert [more("/memory/{memory_id}", "GET", status) for status in (200, 404)] == [1, 1]
    assert more("/users/{user_id}/export", "GET", 200) == 1
    timed = {"route": "/memory", "method": "POST"}
    assert value(samples, "mnema_http_request_duration_seconds_count", **timed) == 3
    assert value(samples, "mnema_http_request_duration_seconds_sum", **timed) > 0
    said = str(samples)
    for name in ("Zorblax", memory["id"], str(caller.scope.tenant_id), str(caller.scope.key_id), caller.key):
        assert name not in said


@pytest.mark.long
async def test_pages_that_are_no_operations_are_routes_too(http: httpx.AsyncClient) -> None:
    pages = ("/docs", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/openapi.json", "/metrics")
    for path in pages:
        assert (await http.get(path)).status_code == 200
    await http.get("/mcp")
    samples = await read(http)
    found = {
        path: value(samples, "mnema_http_requests_total", route=path, method="GET", status="200") for path in pages
    }
    assert found == dict.fromkeys(pages, 1)
    assert value(samples, "mnema_http_requests_total", route="/mcp", method="GET", status="405") == 1
    assert "unmatched" not in str(samples)


async def test_unknown_paths_and_methods_are_one_label_each(http: httpx.AsyncClient) -> None:
    for number in range(5):
        await http.get(f"/nothing/{number}")
    for method in ("PROPFIND", "MKCOL"):
        refused(await http.request(method, "/memory"), 405, "method_not_allowed")
    samples = await read(http)
    unmatched = {"route": "unmatched", "method": "GET", "status": "404"}
    assert value(samples, "mnema_http_requests_total", **unmatched) == 5
    assert not re.search(r"nothing|PROPFIND|MKCOL", str(samples))
    assert value(samples, "mnema_http_requests_total", route="/memory", method="other", status="405") == 2


@pytest.mark.long
async def test_the_model_the_pool_the_jobs_and_the_build_are_seen(http: httpx.AsyncClient) -> None:
    before = await read(http)
    await remember(http, "Maya drinks oat milk.")
    await ask(http, "milk")
    samples = await read(http)
    for of in ("texts", "query"):
        for name in ("mnema_embedder_texts_total", "mnema_embedder_duration_seconds_count"):
            assert value(samples, name, of=of) - value(before, name, of=of) == 1
        assert value(samples, "mnema_embedder_failures_total", of=of) == 0
    assert 1 <= value(samples, "mnema_db_pool_size") <= value(samples, "mnema_db_pool_limit") == 10
    for name in ("mnema_db_pool_waiting", "mnema_jobs_oldest_due_seconds", "mnema_limits_away"):
        assert samples[name, frozenset()] == 0
    assert value(samples, "mnema_db_pool_in_use") <= 1, "work behind the answers may hold one"
    assert any(name == "mnema_build_info" and ("version", VERSION) in labels for name, labels in samples)
    assert value(samples, "process_resident_memory_bytes") > 0


@pytest.mark.long
async def test_a_wait_for_a_connection_is_counted(settings: Settings, embedder: Embedder) -> None:
    async with replica(settings.model_copy(update={"pool_max": 1}), Doubles(embedder=embedder)) as (url, app):
        pool = await app.parts.database.engines[""].get_pool()
        async with httpx.AsyncClient(base_url=url) as client:
            before = value(await read(client), "mnema_db_pool_waits_total")  # the start may have waited
            shares = app.parts.database.engines[""].shares
            while not shares.take_place(None):  # noqa: ASYNC110 - another task has the only connection
                await asyncio.sleep(0.01)  # the server's own work behind the answers may still hold it
            waiting = asyncio.create_task(app.parts.uow.call_definer("SELECT 1"))
            await asyncio.sleep(0)
            seen = app.parts.metrics.render_text().decode()
            assert "mnema_db_pool_waiting 1.0" in seen
            assert "mnema_db_pool_in_use 1.0" in seen
            shares.return_place(None)
            await waiting
            samples = await read(client)
            assert value(samples, "mnema_db_pool_waits_total") >= before + 1
            assert (value(samples, "mnema_db_pool_in_use"), pool.get_size()) == (0, 1)


@pytest.mark.long
async def test_refusals_are_counted_by_what_is_limited(settings: Settings, embedder: Embedder, caller: Caller) -> None:
    async with replica(settings, Doubles(embedder=embedder)) as (url, app), caller.client(url) as client:
        app.tenancy.limits.refused["requests", "key"] += 2
        app.tenancy.limits.refused["memories", "tenant"] += 1
        samples = await read(client)
        assert value(samples, "mnema_limit_refusals_total", what="requests", of="key") == 2
        assert value(samples, "mnema_limit_refusals_total", what="memories", of="tenant") == 1


@pytest.mark.long
@pytest.mark.parametrize("header", ["", "Bearer wrong", "Bearer Ünsinn", "Basic c2VjcmV0", "Bearer"])
async def test_with_a_token_the_metrics_are_for_who_has_it(
    settings: Settings, embedder: Embedder, clock: Clock, header: str
) -> None:
    guarded = settings.model_copy(update={"metrics_token": SecretStr("sesame")})
    async with (
        serve(guarded, Doubles(embedder=embedder, clock=clock)) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        sent = [(b"Authorization", header.encode())] if header else []
        response = await client.get("/metrics", headers=sent)
        refused(response, 401, "unauthenticated")
        assert "mnema_" not in response.text
        assert await read(client, Authorization="Bearer sesame")


@pytest.mark.long
async def test_two_applications_in_a_process_count_for_themselves(
    settings: Settings, embedder: Embedder, clock: Clock
) -> None:
    doubles = Doubles(embedder=embedder, clock=clock)
    async with (
        serve(settings, doubles) as one,
        serve(settings, doubles) as two,
        httpx.AsyncClient(base_url=one) as here,
        httpx.AsyncClient(base_url=two) as there,
    ):
        for _ in range(3):
            await here.get("/health")
        health = {"route": "/health", "method": "GET", "status": "200"}
        assert value(await read(here), "mnema_http_requests_total", **health) == 3
        assert value(await read(there), "mnema_http_requests_total", **health) == 0


@pytest.mark.long
async def test_a_worker_tells_the_metrics_of_all_workers_of_its_server(
    settings: Settings, embedder: Embedder, tmp_path: Path
) -> None:
    doubles = Doubles(embedder=embedder)

    def counted(samples: Samples, worker: str) -> float:
        labels = {"route": "/health", "method": "GET", "status": "200", "worker": worker}
        return value(samples, "mnema_http_requests_total", **labels)

    async with replica(settings, doubles, ServerWorker(1, 1, 3, str(tmp_path))) as (one, _app):
        async with (
            replica(settings, doubles, ServerWorker(2, 2, 3, str(tmp_path))) as (two, _former),
            replica(settings, doubles, ServerWorker(2, 10, 3, str(tmp_path))) as (newer, _newer),
            httpx.AsyncClient() as client,
        ):
            for url, times in ((one, 1), (two, 2), (newer, 3)):
                for _ in range(times):
                    await client.get(f"{url}/health")
            for url in (one, newer):
                samples = await read(client, url)
                assert [counted(samples, worker) for worker in "12"] == [1, 3], "the newer one is the second worker"
                assert [value(samples, "mnema_worker_up", worker=worker) for worker in "123"] == [1, 1, 0]
                assert samples["mnema_jobs_oldest_due_seconds", frozenset()] == 0
                text = (await client.get(f"{url}/metrics")).text
                heads = [line for line in text.splitlines() if line.startswith("# TYPE ")]
                assert len(heads) == len(set(heads)) > 10
        assert not any(name.startswith("2-") for name in os.listdir(tmp_path))
        async with httpx.AsyncClient() as client:
            samples = await read(client, one)
            assert [value(samples, "mnema_worker_up", worker=worker) for worker in "123"] == [1, 0, 0]


@pytest.mark.long
async def test_jobs_of_all_tenants_are_seen_by_kind_and_state(
    settings: Settings, embedder: Embedder, caller: Caller, database: Database
) -> None:
    async with replica(settings, Doubles(embedder=embedder)) as (url, app):
        other = await make_caller(app)
        for one, number in ((caller, 2), (other, 1)):
            async with one.client(url) as client:
                for turn in range(number):
                    await say(client, f"Turn {turn}.")
        await sql(
            database, "UPDATE jobs SET state = 'dead', lease_until = NULL WHERE tenant_id = $1", other.scope.tenant_id
        )
        async with httpx.AsyncClient(base_url=url) as client:
            samples = await read(client)
        found = {tuple(sorted(labels)): number for (name, labels), number in samples.items() if name == "mnema_jobs"}
        assert found == {
            (("kind", "after_turn"), ("state", "queued")): 2,
            (("kind", "after_turn"), ("state", "dead")): 1,
        }
