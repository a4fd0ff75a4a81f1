"""A worker or beat with an invalid configuration ends with one line; without a database it waits and logs."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.jobs.job import JobKind, JobState, NewJob
from app.domain.principal import Principal
from app.storage.jobs.jobs import JobStorage
from tests.background import Background, background, until
from tests.conftest import Database, database_url
from tests.database_outage import gone
from tests.redis_server import RedisServer

pytestmark = pytest.mark.xdist_group("workers")


@pytest.fixture
def workers(tmp_path: Path, database: Database, redis: RedisServer) -> Iterator[Background]:
    """A set of workers, none of which runs yet."""
    with background(tmp_path, database.app, redis.url) as made:
        yield made


async def refused(folder: Path, database_url: str, redis_url: str, *, beat: bool = False, **env: object) -> str:
    """Return the output of a worker (or beat) that ends by itself with an error."""
    with background(folder, database_url, redis_url, **env) as made:
        process = made.beat() if beat else made.worker()

        async def ended() -> bool:
            return process.poll() is not None

        await until(ended, f"the end of a process that says: {made.log}")
        assert process.returncode not in (0, None)
        return made.log.strip()


@pytest.mark.long
@pytest.mark.parametrize(
    ("login", "says"),
    [
        ("superuser", "(superuser or BYPASSRLS, member of mnema_owner); use mnema_app"),
        ("mnema_admin", "(member of mnema_owner); use mnema_app"),
        ("wrong password", "the database refuses this login"),
        ("mysql://mnema_app:secret@127.0.0.1/x", "the database URL must be a URL of PostgreSQL"),
        ("", "set MNEMA_DATABASE_URL"),
    ],
)
async def test_a_worker_whose_database_is_wrongly_set_ends_with_one_line(
    tmp_path: Path, database: Database, redis: RedisServer, login: str, says: str
) -> None:
    urls = {
        "superuser": database.superuser,
        "mnema_admin": database.admin,
        "wrong password": database_url(database.superuser, database.name, "mnema_app", "secret"),
    }
    said = await refused(tmp_path, urls.get(login, login), redis.url)
    assert says in said
    assert (said.count("\n"), said.startswith("error config_invalid: "), "secret" in said) == (0, True, False), said


async def test_a_worker_without_a_schema_or_with_another_model_ends_with_one_line(
    tmp_path: Path, database: Database, redis: RedisServer, sql: asyncpg.Connection
) -> None:
    await sql.execute("UPDATE embedding_spaces SET model = 'another'")
    said = await refused(tmp_path, database.app, redis.url, MNEMA_EMBEDDING_MODEL="all-MiniLM-L6-v2")
    assert (said.count("\n"), "the stored vectors are another" in said) == (0, True), said


@pytest.mark.long
@pytest.mark.parametrize("beat", [False, True])
@pytest.mark.parametrize(
    ("redis_url", "env", "says"),
    [
        ("amqp://mnema:secret@127.0.0.1/0", {}, "MNEMA_REDIS_URL: must be the URL of a Redis"),
        ("redis://:sec/ret@127.0.0.1/0", {}, "MNEMA_REDIS_URL: must be the URL of a Redis"),
        ("", {}, "set MNEMA_REDIS_URL"),
        ("redis://127.0.0.1:1/0", {"MNEMA_POOL_MAX": "many"}, "MNEMA_POOL_MAX: "),
    ],
)
async def test_worker_and_beat_with_wrong_settings_end_with_one_line(
    tmp_path: Path, database: Database, redis_url: str, env: dict[str, object], says: str, beat: bool
) -> None:
    said = await refused(tmp_path, database.app, redis_url, beat=beat, **env)
    assert (said.count("\n"), says in said, "sec" in said.replace("config_invalid", "")) == (0, True, False), said


@pytest.mark.long
async def test_a_worker_whose_database_is_away_waits_for_it_and_tells_so_in_lines(
    app: Application, scope: Principal, database: Database, workers: Background, store: JobStorage
) -> None:
    [before] = await store.enqueue_jobs(scope, [NewJob(JobKind.ttl)])
    async with gone(database):
        process = workers.worker()
        workers.beat()

        async def waits() -> bool:
            return '"worker_waits"' in workers.log

        await until(waits, "the worker to say that it waits")
        assert process.poll() is None
    await done(store, scope, before)

    async with gone(database):

        async def failed() -> bool:
            return '"task_failed"' in workers.log

        await until(failed, "a task that could not be done to be told")
        await asyncio.sleep(3)  # the driver retries by itself as well
    [after] = await store.enqueue_jobs(scope, [NewJob(JobKind.ttl)])
    await done(store, scope, after)
    assert process.poll() is None
    assert "Traceback" not in workers.log
    ours = [json.loads(line) for line in workers.log.splitlines() if "database_unavailable" in line]
    assert {line["level"] for line in ours if line["event"] != "webhooks_not_served"} == {"error"}


async def done(store: JobStorage, scope: Principal, job_id: object) -> None:
    """Wait until the job is done."""

    async def there() -> bool:
        return any(job.id == job_id for job in await store.list_jobs(scope, JobState.done, None, None, 50))

    await until(there, f"job {job_id} to be done")
