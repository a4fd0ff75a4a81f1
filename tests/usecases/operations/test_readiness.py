"""Readiness checks of a running server. The role is checked each time, because it may change meanwhile."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import asyncpg
import pytest
from pydantic import SecretStr
from redis import Redis

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.adapters import broker_settings
from app.bootstrap.administration import change_secret, diagnose_installation
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.ports import ChatModel
from app.providers.blobs import build_blob_store
from app.providers.broker import (
    MANY_REBUILDS,
    REBUILDS_KEY,
    REBUILDS_S,
    UNREACHABLE,
    WORKER_KEY,
    BrokerSettings,
    check_broker,
    check_worker,
    report_rebuilds,
    report_worker,
    silence_limit_s,
)
from app.providers.chat_models import NullChatModel
from app.providers.chat_models.model_endpoint import ModelEndpoint
from app.providers.chat_models.openai import OpenAIModel
from app.providers.clock import SystemClock
from app.providers.rerankers import NullReranker
from app.storage.engine import Engine, refuse_privileged
from app.storage.identity import new_id
from app.storage.operations.schema import head_revision
from app.storage.operations.secret import MISMATCH_TEXT
from app.storage.turn_memory.blobs import PostgresBlobStore
from app.storage.uow import UnitOfWork
from app.usecases.operations.readiness import NO_CHAT_MODEL, Readiness
from tests.conftest import Database, database_url
from tests.factories import make_caller
from tests.fake_llm import fake_llm
from tests.redis_server import RedisServer
from tests.s3_server import S3Server
from tests.usecases.crowd import SeededEmbedder

POWERS = {
    "superuser or BYPASSRLS": ("ALTER ROLE {} BYPASSRLS", "ALTER ROLE {} NOBYPASSRLS"),
    "member of mnema_owner": ("GRANT mnema_owner TO {}", "REVOKE mnema_owner FROM {}"),
    "owner of relations": ("ALTER TABLE events OWNER TO {}", "ALTER TABLE events OWNER TO mnema_owner"),
}


@pytest.fixture
async def role(database: Database, sql: asyncpg.Connection) -> AsyncIterator[str]:
    """A role with the rights of mnema_app, which all tests share and must not change."""
    name = f"probe_{new_id().hex}"
    await sql.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'p' IN ROLE mnema_app")
    await sql.execute(f"GRANT CONNECT ON DATABASE {database.name} TO {name}")
    yield name
    await sql.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_a_role_that_can_step_around_the_policies_by_now_is_told(
    database: Database, sql: asyncpg.Connection, role: str
) -> None:
    engine = Engine(database_url(database.superuser, database.name, role, "p"), min_size=1, max_size=4)
    readiness = Readiness(UnitOfWork(engine), SeededEmbedder(), NullReranker(), NullChatModel(), lambda: None)
    assert (await readiness.run_checks())["role"] == "ok"
    for power, (given, taken) in POWERS.items():
        await sql.execute(given.format(role))
        checks = await readiness.run_checks()
        assert power in checks["role"], "the connections were open before the change"
        assert (checks["database"], "role" in readiness.OPTIONAL) == ("ok", False)
        await sql.execute(taken.format(role))
        assert (await readiness.run_checks())["role"] == "ok"
    await engine.close()


@pytest.mark.parametrize(
    ("power", "cure"),
    [("free", "NOSUPERUSER NOBYPASSRLS"), ("owner", "REVOKE mnema_owner"), ("owns", "REASSIGN OWNED BY mnema_app")],
)
def test_how_to_mend_it_is_said(power: str, cure: str) -> None:
    held = {"free": False, "owner": False, "owns": False}
    refuse_privileged({"rolname": "mnema_app", **held})
    with pytest.raises(ConfigError, match=cure):
        refuse_privileged({"rolname": "mnema_app", **held, power: True})
    with pytest.raises(ConfigError, match=r"; use mnema_app$"):
        refuse_privileged({"rolname": "postgres", **held, power: True})


def readiness_of(app: Application, chat: ChatModel | None = None) -> Readiness:
    """Return the checks on the test's database, with this model alone."""
    return Readiness(app.parts.uow, SeededEmbedder(), NullReranker(), chat or NullChatModel(), lambda: None)


@pytest.mark.usefixtures("own")
async def test_a_locked_table_is_told(
    app: Application, sql: asyncpg.Connection, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.usecases.operations.readiness.LOCKED_S", 0.05)
    readiness = readiness_of(app)
    assert (await readiness.run_checks())["locks"] == "ok"
    waiting = await asyncpg.connect(database.superuser)
    async with sql.transaction():
        await sql.execute("LOCK TABLE tombstones IN ACCESS EXCLUSIVE MODE")
        reading = asyncio.create_task(waiting.fetch("SELECT 1 FROM tombstones"))
        async with asyncio.timeout(60):
            while "tombstones (" not in (await readiness.run_checks())["locks"]:  # noqa: ASYNC110 - the database's
                await asyncio.sleep(0.05)
    await reading
    await waiting.close()


@pytest.mark.usefixtures("own")
async def test_what_is_paused_is_told_by_kind_and_stops_no_request(app: Application) -> None:
    readiness, scopes = readiness_of(app), [(await make_caller(app)).scope for _ in range(2)]
    assert (await readiness.run_checks())["pauses"] == "ok"
    for scope, kind in ((scopes[0], "embed"), (scopes[1], "embed"), (scopes[1], "*")):
        await app.jobs.manage.pause_jobs(scope, kind)
    checks = await readiness.run_checks()
    assert "* (1), embed (2); to go on, run `mnema jobs resume KIND --tenant NAME`" in checks["pauses"]
    assert readiness.failed_checks(checks) == {"pauses"} <= readiness.OPTIONAL
    for scope in scopes:
        await app.jobs.manage.resume_jobs(scope, "*")
    assert (await readiness.run_checks())["pauses"] == "ok"


@pytest.mark.usefixtures("own")
async def test_no_model_one_that_answers_and_one_that_does_not_are_told_apart(app: Application) -> None:
    async with fake_llm() as llm:
        model = OpenAIModel(ModelEndpoint(base_url=llm.base_url), "scripted", 5.0)
        verdicts = [await readiness_of(app, chat).run_checks() for chat in (NullChatModel(), model)]
    verdicts.append(await readiness_of(app, model).run_checks())
    await model.close()
    assert [checks["llm"] for checks in verdicts[:2]] == [NO_CHAT_MODEL, "ok"]
    assert verdicts[2]["llm"].startswith("The chat model's endpoint cannot be reached.")
    assert [Readiness.failed_checks(checks) for checks in verdicts] == [set(), set(), {"llm"}]


@pytest.mark.usefixtures("own")
async def test_a_broker_that_is_away_and_workers_that_are_silent_are_told_apart(
    app: Application, redis: RedisServer
) -> None:
    def checked(url: str) -> Readiness:
        settings = app.parts.settings.model_copy(
            update={"redis_url": SecretStr(url), "worker_queue": f"q-{new_id().hex}"}
        )
        broker = broker_settings(settings)
        brokers.append(broker)
        reachable, worked = partial(check_broker, broker), partial(check_worker, broker)
        return Readiness(app.parts.uow, SeededEmbedder(), NullReranker(), NullChatModel(), reachable, worker=worked)

    brokers: list[BrokerSettings] = []
    readiness, other, away = checked(redis.url), checked(redis.url), checked("redis://127.0.0.1:1/0")
    checks = await readiness.run_checks()
    assert checks["workers"].startswith("no worker has reported for 30 s, background jobs wait: start a worker")
    assert Readiness.failed_checks(checks) == {"workers"} <= Readiness.OPTIONAL
    await asyncio.to_thread(report_worker, brokers[0])
    assert Readiness.failed_checks(await readiness.run_checks()) == set()
    assert Readiness.failed_checks(await other.run_checks()) == {"workers"}, "a worker of another queue is no help"
    checks = await away.run_checks()
    assert (Readiness.failed_checks(checks), checks["broker"]) == ({"broker"}, UNREACHABLE), "one cause, one complaint"
    with Redis.from_url(redis.url) as client:
        [left] = {client.pttl(WORKER_KEY.format(queue=broker.queue)) for broker in brokers[:1]}
        assert 0 < left <= 1000 * silence_limit_s(brokers[0]), "it expires when the workers stop"
        client.delete(WORKER_KEY.format(queue=brokers[0].queue))
    assert silence_limit_s(replace(brokers[0], sweep_s=60)) == 180
    assert Readiness.failed_checks(await readiness.run_checks()) == {"workers"}


@pytest.mark.usefixtures("own")
async def test_a_worker_whose_consumer_fails_again_and_again_is_told(app: Application, redis: RedisServer) -> None:
    settings = app.parts.settings.model_copy(
        update={"redis_url": SecretStr(redis.url), "worker_queue": f"q-{new_id().hex}"}
    )
    broker = broker_settings(settings)
    reachable, worked = partial(check_broker, broker), partial(check_worker, broker)
    readiness = Readiness(app.parts.uow, SeededEmbedder(), NullReranker(), NullChatModel(), reachable, worker=worked)
    report_worker(broker)
    report_rebuilds(broker, "w1@here", MANY_REBUILDS - 1, "KeyError")
    assert Readiness.failed_checks(await readiness.run_checks()) == set(), "one may follow a restart of Redis"
    report_rebuilds(broker, "w2@here", 12, "AttributeError")
    checks = await readiness.run_checks()
    assert Readiness.failed_checks(checks) == {"workers"} <= Readiness.OPTIONAL
    assert checks["workers"].startswith(
        "the worker w2@here has lost its consumer 12 times within 10 minutes, the last time after AttributeError"
    )
    key = REBUILDS_KEY.format(queue=broker.queue)
    with Redis.from_url(redis.url) as client:
        assert 0 < client.ttl(key) <= REBUILDS_S
        client.hset(key, "w3@here", f"50 OSError {client.time()[0] - REBUILDS_S}")
    assert (await readiness.run_checks())["workers"] == checks["workers"], "an old report counts no more"
    report_rebuilds(broker, "w2@here", 0, "")
    assert Readiness.failed_checks(await readiness.run_checks()) == set(), "a worker that was started again is new"


@pytest.mark.usefixtures("own")
async def test_a_bucket_that_is_away_is_told_and_stops_no_request(app: Application, s3: S3Server) -> None:
    s3.make_bucket("ready-bucket")
    verdicts = []
    for bucket in ("ready-bucket", "another-bucket"):
        store = build_blob_store(s3.settings(bucket), PostgresBlobStore(app.parts.uow))
        readiness = Readiness(
            app.parts.uow, SeededEmbedder(), NullReranker(), NullChatModel(), lambda: None, blobs=store, patience_s=10
        )
        verdicts.append(await readiness.run_checks())
    assert [checks["blobs"] for checks in verdicts] == [
        "ok",
        "The bucket of blobs does not exist. Check MNEMA_BLOB_S3_* and that the keys may read and list the bucket.",
    ]
    assert Readiness.failed_checks(verdicts[1]) == {"blobs"} <= Readiness.OPTIONAL
    assert "blobs" in await app.operations.readiness.run_checks()


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "configuration"), [({}, "ok"), ({"blob_store": "s3"}, "MNEMA_BLOB_S3_BUCKET: must be set")]
)
async def test_the_doctor_checks_the_settings_of_the_store(
    settings: Settings, given: dict[str, str], configuration: str
) -> None:
    checks = await diagnose_installation(settings.model_copy(update=given))
    assert checks["configuration"].startswith(configuration)
    assert ("blobs" in checks) == (configuration == "ok")


async def test_a_schema_that_is_behind_is_told_whatever_it_lacks(app: Application, sql: asyncpg.Connection) -> None:
    await sql.execute("DROP FUNCTION paused_jobs(); UPDATE alembic_version SET version_num = '0000'")
    checks = await readiness_of(app).run_checks()
    assert "run `mnema migrate`" in checks["migrations"]
    assert checks["pauses"] == "cannot be checked with this schema"
    await sql.execute(f"UPDATE alembic_version SET version_num = '{head_revision()}'")
    checks = await readiness_of(app).run_checks()
    assert "function paused_jobs() missing" in checks["migrations"]
    assert checks["pauses"] == "cannot be checked with this schema"


async def test_an_error_of_the_database_is_raised_if_the_schema_is_whole(
    app: Application, sql: asyncpg.Connection
) -> None:
    await sql.execute("REVOKE EXECUTE ON FUNCTION paused_jobs() FROM mnema_app")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await readiness_of(app).run_checks()


@pytest.mark.long
async def test_a_replica_with_another_secret_is_told_until_its_secret_is_accepted(
    settings: Settings, embedder: SeededEmbedder, database: Database
) -> None:
    another = settings.model_copy(update={"secret_key": SecretStr("another secret, and as long as it has to be")})
    doubles = Doubles(embedder=embedder)
    async with build_application(settings, doubles) as first, build_application(another, doubles) as second:
        assert (await diagnose_installation(another))["secret"] == "ok", "the doctor reads and records nothing"
        assert (await diagnose_installation(settings))["secret"] == "ok"
        at_once = await asyncio.gather(*(one.operations.readiness.run_checks() for one in (first, first, second)))
        assert {checks["secret"] for checks in at_once} == {"ok", MISMATCH_TEXT}
        one, other = (
            (first, second) if (await first.operations.readiness.run_checks())["secret"] == "ok" else (second, first)
        )
        assert (await one.operations.readiness.run_checks())["secret"] == "ok"
        assert (await other.operations.readiness.run_checks())["secret"] == MISMATCH_TEXT
        assert "secret" not in Readiness.OPTIONAL
        assert (await diagnose_installation(other.parts.settings))["secret"] == MISMATCH_TEXT
        await change_secret(other.parts.settings, database.admin)
        assert (await one.operations.readiness.run_checks())["secret"] == MISMATCH_TEXT
        assert (await other.operations.readiness.run_checks())["secret"] == "ok"


async def test_the_database_knows_the_secret_by_a_mark_alone(
    settings: Settings, embedder: SeededEmbedder, sql: asyncpg.Connection
) -> None:
    async with build_application(settings, Doubles(embedder=embedder)) as app:
        await app.operations.readiness.run_checks()
    [row] = await sql.fetch("SELECT * FROM installation")
    secret = settings.erasure_secret()
    assert len(row["secret_fingerprint"]) == 32
    assert row["secret_fingerprint"] not in (hashlib.sha256(secret).digest(), secret)


async def test_the_doctor_names_a_clock_that_is_wrong(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await diagnose_installation(settings))["clock"] == "ok"
    monkeypatch.setattr(SystemClock, "now", lambda _clock: datetime.now(UTC) + timedelta(days=400))
    verdict = (await diagnose_installation(settings))["clock"]
    assert re.match(r"clock_skew: the database's clock is 345\d{5} s behind this machine's; ", verdict)
    assert "clock" not in Readiness.OPTIONAL
