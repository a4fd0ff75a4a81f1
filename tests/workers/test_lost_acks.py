"""A worker recovers its full capacity after the broker lost an acknowledgement."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.principal import Principal
from app.providers.broker import ANSWER_TIMEOUT_S
from app.storage.jobs.jobs import JobStorage
from tests.background import background
from tests.conftest import Database
from tests.redis_server import RedisServer
from tests.stalling_proxy import stalling
from tests.workers.queueing import forgettable, hanging, held, queued, reaches

pytestmark = [pytest.mark.xdist_group("workers"), pytest.mark.usefixtures("stored_long_ago")]


@pytest.mark.long
async def test_a_job_that_ends_while_the_broker_is_half_open_is_not_the_workers_last(
    app: Application,
    scope: Principal,
    store: JobStorage,
    sql: asyncpg.Connection,
    database: Database,
    redis: RedisServer,
    tmp_path: Path,
) -> None:
    await forgettable(app, scope)
    job_id = await queued(store, scope)
    async with stalling(redis.url) as way:
        with background(tmp_path, database.app, way.url, {"lease_s": 60, "heartbeat_s": 15}) as workers:
            process = workers.worker()
            with ExitStack() as losing:
                async with held(database, scope):
                    await hanging(sql)
                    losing.enter_context(way.swallowed())
                await reaches(store, scope, job_id)
                await asyncio.sleep(ANSWER_TIMEOUT_S + 1)  # the worker gives up the acknowledgement
            await reaches(store, scope, await queued(store, scope))
            assert process.poll() is None
            await asyncio.to_thread(workers.stop)  # stop before the proxy does
