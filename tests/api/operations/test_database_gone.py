"""An outage of the database: 503 meanwhile, nothing lost, and no restart needed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from pydantic import SecretStr

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.ports import Embedder
from app.usecases.operations.readiness import NO_CHAT_MODEL
from tests.api.calls import ask, listed, refused, remember
from tests.api.route_catalog import fill_places, guarded
from tests.conftest import Database
from tests.database_outage import TERMINATE, gone, superuser
from tests.factories import Caller, body, serve
from tests.stalling_proxy import stalling

ENOUGH_S = 90
"""Seconds: far more than an answer takes, and less than an answer without time limits took."""
POOL_SIZE = 10


@pytest.mark.long
async def test_every_route_is_unavailable_without_the_database_and_recovers_with_it(
    http: httpx.AsyncClient, database: Database
) -> None:
    written = await remember(http, thread_id="t")
    places = fill_places(written["id"]) | {"user_id": "maya"}
    before = (await http.get(f"/memory/{written['id']}")).json()
    wrong = {}
    async with gone(database):
        for _ in range(2):
            for operation in await guarded(http):
                response = await operation.call(http, places)
                if response.status_code != 503 or response.json().get("code") != "database_unavailable":
                    wrong[operation.name] = response.text
                elif "Retry-After" not in response.headers:
                    wrong[operation.name] = "no Retry-After"
    assert wrong == {}
    assert (await http.get(f"/memory/{written['id']}")).json() == before
    assert (await remember(http, "Maya plays chess.", thread_id="t"))["revision"] == 2


async def test_a_question_about_facts_has_the_label_of_a_failure_without_the_database(
    settings: Settings, embedder: Embedder, caller: Caller, database: Database
) -> None:
    question = {"user_id": "maya", "query": "What's my second favorite color?", "model": "tiny-1"}
    remembering = settings.model_copy(update={"key_cache_s": 4.0})  # otherwise the key cannot be checked
    async with serve(remembering, Doubles(embedder=embedder)) as url, caller.client(url) as http:
        assert (await http.post("/facts/answer", json=question)).json()["model_label"] == "Model: tiny-1"
        async with gone(database):
            before = {"memory_actions": {"S": 2}}
            problem = refused(await http.post("/facts/answer", json=question | before), 503, "database_unavailable")
    assert problem["model_label"] == "Model: Memory-F + tiny-1"
    assert problem["meta"] == {
        "usedWebSearch": False,
        "usedMemory": False,
        "memory_actions": {"S": 2, "U": 0, "R": 0, "F": True},
    }


async def test_the_process_lives_and_is_not_ready_without_the_database(
    http: httpx.AsyncClient, database: Database
) -> None:
    before = await http.get("/ready")
    assert (before.status_code, before.json()) == (
        200,
        {
            "status": "degraded",
            "checks": dict.fromkeys(
                (
                    "database",
                    "locks",
                    "clock",
                    "migrations",
                    "role",
                    "embedding_space",
                    "secret",
                    "embedder",
                    "reranker",
                    "chat_spool",
                    "workers",
                    "pauses",
                ),
                "ok",
            )
            | {
                "llm": NO_CHAT_MODEL,
                "blobs": "ok",
                "broker": "no broker configured, background jobs wait: set MNEMA_REDIS_URL",
            },
        },
    )
    async with gone(database):
        assert (await http.get("/health")).json()["status"] == "ok"
        response = await http.get("/ready")
        assert response.status_code == 503
        report = response.json()
    assert report["status"] == "unavailable"
    assert report["checks"]["embedder"] == "ok"
    assert "ok" not in {report["checks"][name] for name in ("database", "migrations", "role", "embedding_space")}
    assert (await http.get("/ready")).status_code == 200


@asynccontextmanager
async def read_only(database: Database) -> AsyncIterator[None]:
    """Make the database refuse writes until the block ends, like a standby or a provider with a full disk."""
    async with superuser(database) as connection:
        await connection.execute(f"ALTER DATABASE {database.name} SET default_transaction_read_only = on")
        await connection.fetch(TERMINATE, database.name)
        try:
            yield
        finally:
            await connection.execute(f"ALTER DATABASE {database.name} RESET default_transaction_read_only")
            await connection.fetch(TERMINATE, database.name)


@pytest.mark.long
async def test_a_read_only_database_is_read_and_no_proxy_sends_writes_to_it(
    http: httpx.AsyncClient, database: Database
) -> None:
    written = await remember(http)
    async with read_only(database):
        await http.get("/memory")  # the first request after the cut may fail
        assert len(await listed(http)) == 1
        answers = [
            await http.post("/memory", json=body("Maya plays chess.")),
            await http.post("/turns", json={"user_id": "maya", "thread_id": "t", "role": "user", "content": "Hello."}),
            await http.patch(f"/memory/{written['id']}", json={"importance": 5}),
        ]
        for response in answers:
            refused(response, 503, "database_read_only")
            assert response.headers["Retry-After"]
        ready = await http.get("/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
        assert "takes no writes" in ready.json()["checks"]["database"]
    assert await is_ready_soon(http)
    await remember(http, "Maya plays chess.")


async def is_ready_soon(http: httpx.AsyncClient) -> bool:
    """Ask at most once per connection of the pool: each one that was cut may cost one request its answer."""
    for _ in range(POOL_SIZE):
        if (await http.get("/ready")).status_code == 200:
            return True
    return False


@pytest.mark.long
async def test_connections_that_were_cut_are_replaced(http: httpx.AsyncClient, database: Database) -> None:
    await remember(http)
    seen = set()
    async with superuser(database) as connection:
        for _ in range(40):
            await connection.fetch(TERMINATE, database.name)
            seen |= {(await http.get("/memory")).status_code for _ in range(2)}
            assert (await http.get("/memory")).status_code == 200
    assert seen <= {200, 503}  # 503: the request that noticed the cut
    assert len(await listed(http)) == 1


@pytest.mark.long
async def test_what_was_counted_while_the_database_was_away_is_kept(
    http: httpx.AsyncClient, database: Database
) -> None:
    written = await remember(http)
    await ask(http)
    async with gone(database):
        refused(await http.get("/memory"), 503, "database_unavailable")
    await http.get("/events/counts")
    assert (await http.get(f"/memory/{written['id']}")).json()["hits"] == 1


@pytest.mark.parametrize("path", ["/memory", "/events/counts"])
async def test_the_error_says_nothing_of_where_the_database_is(
    http: httpx.AsyncClient, database: Database, path: str
) -> None:
    async with gone(database):
        text = (await http.get(path)).text + (await http.get("/ready")).text
    for secret in (database.name, "mnema_app", "127.0.0.1", "5432", "asyncpg", "Traceback"):
        assert secret not in text


@pytest.mark.long
async def test_a_database_that_hangs_is_named_and_every_request_is_answered_before_long(
    settings: Settings, embedder: Embedder, caller: Caller, database: Database
) -> None:
    async with stalling(database.app) as way:
        impatient = {"database_url": SecretStr(way.url), "database_timeout_s": 1.0, "key_cache_s": 2.0}
        installed = settings.model_copy(update=impatient)
        async with serve(installed, Doubles(embedder=embedder)) as url, caller.client(url) as http:
            await remember(http, "Maya plays chess.")
            with way.stalled():
                async with asyncio.timeout(ENOUGH_S):
                    ready, health, listing, written, asked = await asyncio.gather(
                        http.get("/ready"),
                        http.get("/health"),
                        http.get("/memory"),
                        http.post("/memory", json={"text": "Maya paints.", "category": "tasks", "user_id": "maya"}),
                        http.post(
                            "/memory/query", json={"agent": "planner", "query": "chess", "categories": ["tasks"]}
                        ),
                    )
                assert (ready.status_code, health.status_code) == (503, 200)
                checks = ready.json()["checks"]
                assert "check MNEMA_DATABASE_URL and that PostgreSQL runs there" in checks["database"]
                assert checks["embedder"] == "ok"
                for response in (listing, written, asked):
                    refused(response, 503, "database_unavailable")
                    assert response.headers["Retry-After"]
            assert (await http.get("/ready")).status_code == 200
            assert "Maya plays chess." in {memory["text"] for memory in await listed(http)}
