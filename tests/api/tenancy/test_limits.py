"""Rate limits and quotas over HTTP: real servers that share a real Redis, which may be killed."""

import json
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml
from pydantic import SecretStr

from app.bootstrap import Application, Doubles
from app.config.server_worker import ServerWorker
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.domain.outages import CountersUnavailable
from app.domain.trusted_time import TrustedTime
from app.ports import CounterIncrement, Embedder
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.tenancy.limits import Limits
from tests.api.calls import refused, remember, say, sql
from tests.api.route_catalog import fill_places, guarded
from tests.conftest import Database
from tests.factories import Caller, KeepOpen, body, make_caller, replica
from tests.redis_server import RedisServer

KEY, TENANT, QUOTA = 5, 8, 4
BORDER = datetime(2027, 1, 15, 12, tzinfo=UTC)


class StillClock:
    """A clock that moves only on request. It stands at the start of every window except the day's."""

    def __init__(self) -> None:
        self.at = BORDER

    def now(self) -> datetime:
        """Return the time that was set."""
        return self.at

    async def trusted_time(self) -> TrustedTime:
        """Return the time that was set."""
        return TrustedTime(self.at)

    async def follow_database(self) -> None:
        """Do nothing: it stands still."""

    def move(self, seconds: float) -> None:
        """Move the clock forward."""
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def still() -> StillClock:
    return StillClock()


Configured = Callable[..., Settings]


@pytest.fixture
def configured(settings: Settings, tmp_path: Path) -> Configured:
    """Return settings with these limits. Replicas exchange their counts only when a test asks for it."""

    def configure(**limits: Any) -> Settings:
        folder = Path(shutil.copytree(CONFIG_DIR, tmp_path / "config"))
        file = folder / "policies.yaml"
        policies = yaml.safe_load(file.read_text(encoding="utf-8")) | {"limits": limits}
        file.write_text(yaml.safe_dump(policies), encoding="utf-8")
        return settings.model_copy(update={"config_dir": folder, "limits_exchange_s": 3600})

    return configure


@pytest.fixture
def limited(configured: Configured) -> Settings:
    """Return settings with a low rate limit."""
    return configured(requests_per_minute={"key": KEY, "tenant": TENANT})


@pytest.fixture
def rationed(configured: Configured) -> Settings:
    """Return settings with a low quota."""
    return configured(memories_per_day={"key": QUOTA, "tenant": 2 * QUOTA})


class Site:
    """Several replicas of one installation."""

    def __init__(self, replicas: list[tuple[str, Application]]) -> None:
        self.urls = [url for url, _app in replicas]
        self.apps = [app for _url, app in replicas]

    async def exchange(self, times: int = 2) -> None:
        """Exchange the counts twice, so that the first replica also learns the counts of the last."""
        for _ in range(times):
            for app in self.apps:
                await app.tenancy.limits.exchange_counts()

    async def events(self, caller: Caller) -> dict[tuple[str, str], int]:
        """Return the number of events of each limit in the tenant."""
        counts = await self.apps[0].operations.count_events.count_events(caller.scope, ["op", "status"], None, None)
        for app in self.apps[1:]:
            await app.parts.access.flush_pending()
            counts = await self.apps[0].operations.count_events.count_events(caller.scope, ["op", "status"], None, None)
        return {(c["op"], c["status"]): c["count"] for c in counts if c["op"] in ("rate_limit", "quota")}


@asynccontextmanager
async def site(
    settings: Settings, doubles: Doubles, number: int = 1, folder: Path | None = None
) -> AsyncIterator[Site]:
    """Run replicas. With a `folder` they are workers of one server, which share it."""
    places = [folder and ServerWorker(at + 1, at, number, str(folder)) for at in range(number)]
    async with AsyncExitStack() as stack:
        yield Site([await stack.enter_async_context(replica(settings, doubles, place)) for place in places])


def shared(settings: Settings, redis: RedisServer) -> Settings:
    """Return settings with this Redis and a new name, because the module's tests share the Redis."""
    name = settings.database_url.get_secret_value().rsplit("/", 1)[-1]
    return settings.model_copy(update={"redis_url": SecretStr(redis.url), "worker_queue": name})


async def statuses(client: httpx.AsyncClient, number: int) -> list[int]:
    return [(await client.get("/memory")).status_code for _ in range(number)]


async def test_a_key_and_a_tenant_have_so_many_requests_a_minute(
    limited: Settings, embedder: Embedder, still: StillClock
) -> None:
    async with site(limited, Doubles(embedder=embedder, clock=still)) as here:
        one = await make_caller(here.apps[0])
        two = await make_caller(here.apps[0], ["query"], tenant=one)
        other = await make_caller(here.apps[0])
        async with one.client(here.urls[0]) as a, two.client(here.urls[0]) as b, other.client(here.urls[0]) as c:
            assert await statuses(a, KEY + 1) == [200] * KEY + [429]
            problem = refused(await a.get("/memory"), 429, "rate_limited")
            assert "for this API key" in problem["detail"]
            assert await statuses(b, TENANT - KEY + 1) == [200] * (TENANT - KEY) + [429], "what one key left the tenant"
            assert "for this tenant" in refused(await b.get("/memory"), 429, "rate_limited")["detail"]
            assert await statuses(c, KEY) == [200] * KEY, "another tenant has nothing to do with it"
        assert await here.events(one) == {("rate_limit", "skipped"): 1}, "one a minute, however many"
        assert await here.events(other) == {}


def batch_of(number: int) -> dict[str, Any]:
    """Return operations of all kinds."""
    put = {"namespace": ["d"], "key": "k", "value": {}}
    every = {"gets": {"namespace": ["d"], "key": "k"}, "searches": {}, "lists": {}, "puts": put}
    return {kind: [one] * len(range(at, number, len(every))) for at, (kind, one) in enumerate(every.items())}


async def test_a_batch_counts_as_many_requests_as_it_has_operations(
    limited: Settings, embedder: Embedder, still: StillClock, database: Database
) -> None:
    async with site(limited, Doubles(embedder=embedder, clock=still)) as here:
        one = await make_caller(here.apps[0])
        two = await make_caller(here.apps[0], ["query", "write"], tenant=one)
        async with one.client(here.urls[0]) as a, two.client(here.urls[0]) as b:
            problem = refused(await a.post("/store/batch", json=batch_of(KEY + 1)), 422, "too_many_operations")
            assert f"{KEY + 1} operations" in problem["detail"]
            assert f"send at most {KEY} at once" in problem["detail"]
            assert await sql(database, "SELECT 1 FROM store_items") == [], "all or nothing"
            still.move(120)
            assert (await a.post("/store/batch", json=batch_of(KEY))).status_code == 200
            assert await statuses(a, 1) == [429]
            assert await statuses(b, TENANT - KEY + 1) == [200] * (TENANT - KEY) + [429], "and for the tenant"
            still.move(120)
            assert await statuses(a, 2) == [200, 200]
            response = await a.post("/store/batch", json=batch_of(KEY - 1))
            wait = refused(response, 429, "rate_limited")["retry_after"]
            assert response.headers["Retry-After"] == str(wait)
            assert await statuses(a, KEY - 3) == [200] * (KEY - 3), "what was refused counts as one request"
            still.move(wait + 60)
            assert (await a.post("/store/batch", json=batch_of(KEY - 1))).status_code == 200


async def test_after_its_retry_after_a_batch_is_admitted(
    limited: Settings, embedder: Embedder, still: StillClock
) -> None:
    async with site(limited, Doubles(embedder=embedder, clock=still)) as here:
        caller = await make_caller(here.apps[0])
        async with caller.client(here.urls[0]) as client:
            for before, number in ((2, KEY - 1), (2, KEY), (KEY - 1, 2)):
                await statuses(client, before)
                response = await client.post("/store/batch", json=batch_of(number))
                still.move(refused(response, 429, "rate_limited")["retry_after"])
                assert (await client.post("/store/batch", json=batch_of(number))).status_code == 200
                still.move(120)


@pytest.mark.long
async def test_retry_after_is_true_and_the_window_slides(
    limited: Settings, embedder: Embedder, still: StillClock
) -> None:
    async with site(limited, Doubles(embedder=embedder, clock=still)) as here:
        caller = await make_caller(here.apps[0])
        async with caller.client(here.urls[0]) as client:
            assert await statuses(client, KEY) == [200] * KEY
            for _ in range(4):
                response = await client.get("/memory")
                wait = refused(response, 429, "rate_limited")["retry_after"]
                assert response.headers["Retry-After"] == str(wait)
                still.move(wait - 1)
                refused(await client.get("/memory"), 429, "rate_limited")
                still.move(1)
                assert await statuses(client, 2) == [200, 429], "room for one, not for a new load"
            still.move(120)
            assert await statuses(client, KEY + 1) == [200] * KEY + [429]


@pytest.mark.long
async def test_every_guarded_route_is_limited_and_says_so_in_the_document(
    limited: Settings, embedder: Embedder, still: StillClock
) -> None:
    async with site(limited, Doubles(embedder=embedder, clock=still)) as here:
        caller = await make_caller(here.apps[0])
        places = fill_places("01a1fc6a-13da-7474-b3f6-cb098cae46b6")
        async with caller.client(here.urls[0]) as client:
            await statuses(client, KEY)
            for operation in await guarded(client):
                response = await operation.call(client, places)
                refused(response, 429, "rate_limited")
            document = (await client.get("/openapi.json")).json()
            assert (await client.get("/health")).status_code == 200
        for methods in document["paths"].values():
            for spec in methods.values():
                assert ("429" in spec["responses"]) == bool(spec.get("security"))


@pytest.mark.long
@pytest.mark.parametrize("by_file", [False, True], ids=["by Redis", "by a file of one server's workers"])
async def test_two_replicas_share_one_window(
    limited: Settings, embedder: Embedder, still: StillClock, redis: RedisServer, tmp_path: Path, by_file: bool
) -> None:
    settings, folder = (limited, tmp_path) if by_file else (shared(limited, redis), None)
    async with site(settings, Doubles(embedder=embedder, clock=still), 2, folder) as both:
        caller, other = await make_caller(both.apps[0]), await make_caller(both.apps[0])
        async with caller.client(both.urls[0]) as here, caller.client(both.urls[1]) as there:
            assert await statuses(here, 3) + await statuses(there, 1) == [200] * 4
            await both.exchange()
            assert await statuses(there, 2) == [200, 429], "what the other replica admitted counts"
            await both.exchange()
            assert await statuses(here, 1) == [200], "who was asked nothing since has not learned of the last one"
            await both.exchange()
            assert await statuses(here, 1) + await statuses(there, 1) == [429, 429]
            still.move(120)
            # before the next exchange each replica may admit a whole limit: the largest possible excess
            assert await statuses(here, KEY + 1) + await statuses(there, KEY + 1) == [*[200] * KEY, 429] * 2
            await both.exchange()
            still.move(72)
            assert await statuses(here, 1) + await statuses(there, 1) == [429, 429], "twice as much takes longer"
        async with other.client(both.urls[1]) as unrelated:
            assert await statuses(unrelated, KEY) == [200] * KEY
        with redis.client() as seen:
            assert list(seen.scan_iter("*:limits:*")) or by_file
            assert all(0 < seen.ttl(name) <= 2 * 86_400 + 60 for name in seen.scan_iter("*:limits:*"))


@pytest.mark.long
async def test_a_replica_that_comes_later_knows_what_was_counted(
    limited: Settings, embedder: Embedder, still: StillClock, redis: RedisServer
) -> None:
    doubles, settings = Doubles(embedder=embedder, clock=still), shared(limited, redis)
    async with site(settings, doubles) as first:
        caller = await make_caller(first.apps[0])
        async with caller.client(first.urls[0]) as client:
            await statuses(client, KEY)
    still.move(60)  # the counts that were sent at the end now belong to the previous window
    async with site(settings, doubles) as second, caller.client(second.urls[0]) as client:
        assert await statuses(client, 1) == [200], "nothing is known yet"
        await second.exchange()
        assert await statuses(client, 1) == [429]


@pytest.mark.long
async def test_while_redis_is_away_nothing_is_refused_and_it_is_told(
    limited: Settings, embedder: Embedder, still: StillClock, redis: RedisServer
) -> None:
    async with site(shared(limited, redis), Doubles(embedder=embedder, clock=still)) as here:
        app = here.apps[0]
        caller, quiet = await make_caller(app), await make_caller(app)
        async with caller.client(here.urls[0]) as client:
            assert await statuses(client, KEY + 1) == [*[200] * KEY, 429]
            redis.kill()
            try:
                await here.exchange()
                assert await statuses(client, 2 * KEY) == [200] * 2 * KEY
                assert app.tenancy.limits.away
                assert await here.events(caller) == {("rate_limit", "skipped"): 1, ("rate_limit", "error"): 1}
                still.move(60)
                await statuses(client, 3)
                assert (await here.events(caller))["rate_limit", "error"] == 2, "one a minute"
                assert await here.events(quiet) == {}, "nothing was left undone for who did not ask"
                assert "mnema_limits_away 1.0" in (await client.get("/metrics")).text
            finally:
                redis.start()
            await here.exchange()
            assert await statuses(client, 1) == [429], "what was done meanwhile counts"
            await here.exchange()
            with redis.client() as seen:
                told = {int(seen.get(name) or 0) for name in seen.scan_iter(f"*:requests:{caller.scope.key_id}:*")}
            assert told == {KEY + 2 * KEY, 3}
        assert not app.tenancy.limits.away


class Deaf:
    """Counters that hang: they count later and never answer."""

    def __init__(self) -> None:
        self.told: list[int] = []

    async def add_and_read(self, counts: Sequence[CounterIncrement]) -> list[int]:
        """Count, but never answer."""
        self.told += [count.add for count in counts if count.add]
        raise CountersUnavailable()

    async def close(self) -> None:
        """Do nothing."""


async def test_what_hangs_is_told_nothing_twice(limited: Settings, embedder: Embedder, still: StillClock) -> None:
    async with site(limited, Doubles(embedder=embedder, clock=still)) as here:
        app, deaf = here.apps[0], Deaf()
        limits = Limits(
            app.parts.policies.defaults.limits,
            deaf,
            TenantStorage(app.parts.uow).get_tenant_name,
            app.parts.access,
            still,
        )
        caller = await make_caller(app)
        for _ in range(3):
            await limits.admit_request(caller.scope)
        for _ in range(5):
            await limits.exchange_counts()
            await limits.admit_request(caller.scope)
        assert deaf.told == [3, 3], "of the key and of the tenant, once"
        assert limits.unenforced == 5


@pytest.mark.long
async def test_a_quota_of_memories_a_day_counts_what_is_written(
    rationed: Settings, embedder: Embedder, still: StillClock
) -> None:
    model = KeepOpen(embedder)
    async with site(rationed, Doubles(embedder=model, clock=still)) as here:
        caller = await make_caller(here.apps[0])
        async with caller.client(here.urls[0]) as client:
            refused(await client.post("/memory", json=body("x" * 300)), 422, "text_too_long")
            await remember(client, "Maya keeps bees.")
            await say(client, "The bees are fine.", thread_id="t")
            await remember(client, "Maya sails on Sundays.")
            model.failing = True
            for _ in range(QUOTA):
                refused(await client.post("/memory", json=body()), 503, "embedder_unavailable")
            model.failing = False
            await remember(client, "Maya plays the harp.")
            response = await client.post("/memory", json=body("Maya runs."))
            wait = refused(response, 429, "quota_exceeded")["retry_after"]
            assert response.headers["Retry-After"] == str(wait)
            said = {"user_id": "maya", "thread_id": "t", "role": "user", "content": "Hello"}
            refused(await client.post("/turns", json=said), 429, "quota_exceeded")
            assert (await client.get("/memory")).status_code == 200, "reading goes on"
            still.move(wait)
            await remember(client, "Maya runs.")
        assert await here.events(caller) == {("quota", "skipped"): 1}


async def test_the_lines_of_a_bulk_beyond_the_quota_are_refused_one_by_one(
    rationed: Settings, embedder: Embedder, still: StillClock
) -> None:
    lines = [body(f"Maya likes number {n}.", user_id=f"u{n}") for n in range(QUOTA + 2)]
    lines.insert(1, body("x" * 300))
    async with site(rationed, Doubles(embedder=embedder, clock=still)) as here:
        caller = await make_caller(here.apps[0])
        async with caller.client(here.urls[0]) as client:
            response = await client.post("/memory/bulk", content="\n".join(map(json.dumps, lines)))
            answers = [json.loads(line) for line in response.text.splitlines()]
            verdicts = [a["error"]["code"] if "error" in a else a["action"] for a in answers]
            assert verdicts == ["created", "text_too_long", *["created"] * (QUOTA - 1), *["quota_exceeded"] * 2]
            assert answers[-1]["error"]["status"] == 429
            assert answers[-1]["error"]["retry_after"] >= 1
            assert len((await client.get("/memory")).json()["items"]) == QUOTA


async def test_the_quota_counts_imported_facts(rationed: Settings, embedder: Embedder, still: StillClock) -> None:
    lines = [
        {
            "kind": "fact",
            "id": str(uuid4()),
            "topic_key": "favorite_tea",
            "thread_id": f"t{number}",
            "form": "single",
            "value": "sencha",
            "category": "preferences",
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
        }
        for number in range(QUOTA + 1)
    ]
    async with site(rationed, Doubles(embedder=embedder, clock=still)) as here:
        caller = await make_caller(here.apps[0])
        async with caller.client(here.urls[0]) as client:
            verdicts: list[str] = []
            for sent in (lines[:1], lines[:1], lines[1:]):  # what is stored already is given back
                content = "\n".join(map(json.dumps, sent))
                response = await client.post("/import", content=content, params={"user_id": "maya"})
                answers = [json.loads(line) for line in response.text.splitlines()]
                verdicts += [a["error"]["code"] if "error" in a else a["action"] for a in answers]
            assert verdicts == ["imported", "unchanged", *["imported"] * (QUOTA - 1), "quota_exceeded"]


async def test_what_a_tenant_is_called_says_what_it_may_do(
    configured: Configured, embedder: Embedder, still: StillClock
) -> None:
    usual = {"requests_per_minute": {"key": KEY, "tenant": TENANT}, "memories_per_day": {"key": QUOTA, "tenant": None}}
    differs = {"generous": {"requests_per_minute": {"key": None, "tenant": None}}}
    async with site(configured(**usual, tenants=differs), Doubles(embedder=embedder, clock=still)) as here:
        app = here.apps[0]
        tenant = await app.tenancy.tenants.create_tenant("generous")
        _key, plain = await app.tenancy.tenants.create_key(tenant.id, "test", ["admin"])
        scope = await app.tenancy.tenants.authenticate(plain)
        assert scope is not None
        async with Caller(plain, scope).client(here.urls[0]) as client:
            assert await statuses(client, 2 * TENANT) == [200] * 2 * TENANT
            for number in range(QUOTA):
                await remember(client, f"Maya has {number} bees.", user_id=f"u{number}")
            refused(await client.post("/memory", json=body()), 429, "quota_exceeded")
        assert await here.events(Caller(plain, scope)) == {("quota", "skipped"): 1}
