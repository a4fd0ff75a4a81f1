"""Drills of calendars: hosts and databases in other zones, days of 23 and 25 hours, and clocks that are set back.

`pytest -s` shows what happened.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import asyncpg
import httpx
import pytest

from app.bootstrap import Application
from app.domain.jobs.job import JobKind, offset_s, period_slot
from app.domain.outages import ClockSkew
from tests.acceptance.database_clock import DatabaseClock
from tests.acceptance.serving import Server
from tests.api.calls import ask, remember, say
from tests.background import background, until
from tests.conftest import Database
from tests.factories import Caller
from tests.redis_server import RedisServer
from tests.usecases.crowd import SeededEmbedder

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.long,
    pytest.mark.xdist_group("workers"),
    pytest.mark.usefixtures("own"),
]
PATIENCE_S = 60
HOUR = timedelta(hours=1)
WEEK = timedelta(days=7)
MONDAY = datetime(2001, 1, 1, tzinfo=UTC)
DAILY = (JobKind.purge, JobKind.retention, JobKind.consolidate)
HOURLY = (JobKind.ttl, JobKind.consent)
A_TIME = re.compile(r"\d{4}-\d\d-\d\dT")
IN_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
CHILDREN = """
SELECT i.inhparent::regclass::text AS parent, c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bound
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = ANY ('{events,receipts,receipt_items}'::regclass[]) AND c.relname ~ '_[0-9]{8}$' ORDER BY 1, 2
"""
MISPLACED = """
SELECT count(*), count(*) FILTER (WHERE right(part, 8) <> to_char(week_of(ts) AT TIME ZONE 'UTC', 'YYYYMMDD')) AS wrong,
       max(abs(extract(epoch FROM ts - uuid_extract_timestamp(id))))::float8 AS apart_s
FROM (SELECT tableoid::regclass::text AS part, ts, id FROM events
      UNION ALL SELECT tableoid::regclass::text, ts, id FROM receipts) r
"""


@pytest.fixture
def embedder() -> SeededEmbedder:
    """The embedder of this process; servers and workers use the real model."""
    return SeededEmbedder()


@pytest.fixture
async def clock(database: Database) -> AsyncIterator[DatabaseClock]:
    """The clocks of the application and its database, which the test moves."""
    connection = await asyncpg.connect(database.superuser)
    yield await DatabaseClock.install(connection)
    await connection.close()


def times_in(answer: Any) -> Iterator[str]:
    """Yield every text of a JSON value that is a time."""
    if isinstance(answer, dict | list):
        for value in answer.values() if isinstance(answer, dict) else answer:
            yield from times_in(value)
    elif isinstance(answer, str) and A_TIME.match(answer):
        yield answer


async def write_all(http: httpx.AsyncClient) -> dict[str, str]:
    """Write what has times: memories, a change, a deletion, turns, facts, an item with a time to live, a query."""
    ids = {"changed": (await remember(http))["id"]}
    ids["changed"] = (await remember(http, "Maya sails on Sundays.", thread_id="talk"))["id"]
    past = "2026-01-15T23:30:00-05:00"
    ids["imported"] = (await remember(http, "Maya was born in Oslo.", created_at=past))["id"]
    ids["deleted"] = (await remember(http, "Maya keeps bees.", thread_id="talk"))["id"]
    edit = await http.patch(f"/memory/{ids['changed']}", json={"text": "Maya sails on Saturdays."})
    assert edit.status_code == 200, edit.text
    assert (await http.delete(f"/memory/{ids['deleted']}")).status_code == 200
    await say(http, "Hello, I sail again.", thread_id="talk")
    for text, moment in (("green and teal", "2026-03-29T02:30:00+01:00"), ("blue and green", None)):
        message = {"user_id": "maya", "text": f"My favorite colors are {text}.", "created_at": moment}
        stored = await http.post("/facts", json=message)
        assert stored.status_code == 201, stored.text
    put = {"namespace": ["maya"], "key": "k", "value": {"n": 1}, "ttl_minutes": 60}
    assert (await http.post("/store/batch", json={"puts": [put]})).status_code == 200
    ids["query"] = (await ask(http, "Does Maya sail?"))["query_id"]
    return ids


async def read_all(http: httpx.AsyncClient, ids: dict[str, str], middle: datetime) -> dict[str, Any]:
    """Return every answer that tells times or asks by time, by its path. `middle`: a time between two writes."""
    east, west = (quote(middle.astimezone(timezone(hours * HOUR)).isoformat()) for hours in (14, -5))
    fact = (await http.get("/facts?user_id=maya")).json()["items"][0]["id"]
    day = f"{middle:%Y-%m-%d}"
    paths = [
        "/memory?user_id=maya",
        f"/memory?user_id=maya&updated_after={east}",
        f"/memory?user_id=maya&updated_before={west}",
        f"/memory?user_id=maya&created_before={day}",
        f"/memory?user_id=maya&created_after={day}&sort=updated_at",
        "/memory?user_id=maya&state=soft_deleted",
        "/changes?user_id=maya",
        *(f"/memory/{ids[name]}" for name in ("changed", "imported", "deleted")),
        *(f"/memory/{ids[name]}/history" for name in ("changed", "imported", "deleted")),
        f"/memory/{ids['changed']}/uses",
        "/threads/talk/turns",
        "/threads/talk/delta?since_rev=0",
        "/facts?user_id=maya",
        f"/facts/{fact}/history",
        "/queries",
        f"/queries?since={west}",
        f"/queries/{ids['query']}",
        "/events?op=create",
        f"/events?op=create&since={east}",
        f"/events?op=create&until={west}",
        "/events/counts?by=day,op",
        "/usage?by=day",
        "/jobs",
        "/users/maya/context",
    ]
    answers = {}
    for path in paths:
        answer = await http.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        answers[path] = answer.json()
    got = await http.post("/store/batch", json={"gets": [{"namespace": ["maya"], "key": "k", "refresh_ttl": False}]})
    return answers | {"/store/batch": got.json()}


@asynccontextmanager
async def serving(server: Server, caller: Caller) -> AsyncIterator[httpx.AsyncClient]:
    """Run the server; yield a client of the caller's."""
    try:
        await server.start()
        async with caller.client(server.url) as http:
            yield http
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("host", "of_database", "whose"),
    [
        ("Pacific/Kiritimati", "Asia/Kathmandu", "DATABASE {name}"),
        ("America/New_York", "Pacific/Kiritimati", "ROLE mnema_app IN DATABASE {name}"),
    ],
)
async def test_hosts_and_a_database_in_other_zones_answer_what_they_answer_in_utc(
    app: Application,
    caller: Caller,
    sql: asyncpg.Connection,
    database: Database,
    redis: RedisServer,
    tmp_path: Path,
    host: str,
    of_database: str,
    whose: str,
) -> None:
    where = f"ALTER {whose.format(name=database.name)}"
    await sql.execute(f"{where} SET timezone = '{of_database}'")
    jobs = {"schedule": {str(kind): 86400 for kind in (*DAILY, *HOURLY)}}
    tenant = caller.scope.tenant_id

    async def settled() -> bool:
        kinds = await sql.fetch("SELECT kind, state FROM jobs WHERE tenant_id = $1", tenant)
        told = await sql.fetchval("SELECT count(*) FROM receipts")
        done = {row["kind"] for row in kinds if row["state"] == "done"}
        return told == 1 and {*map(str, (*DAILY, *HOURLY)), "after_turn"} <= done

    with background(tmp_path, database.app, redis.url, jobs, TZ=host) as workers:
        env = {"MNEMA_REDIS_URL": redis.url, "MNEMA_WORKER_QUEUE": workers.queue}
        began = await sql.fetchval("SELECT clock_timestamp()")
        async with serving(Server(database, tmp_path, env={**env, "TZ": host}), caller) as http:
            workers.worker(), workers.beat()
            await remember(http, "Maya plays chess.")
            middle = await sql.fetchval("SELECT clock_timestamp()")
            ids = await write_all(http)
            took = await until(settled, "the daily jobs and the receipt", PATIENCE_S)
            workers.stop()
            abroad = await read_all(http, ids, middle)
        complaints = [line for line in workers.log.splitlines() if '"error"' in line or "Traceback" in line]
        assert complaints == []
        ended = await sql.fetchval("SELECT clock_timestamp()")
        await sql.execute(f"{where} RESET timezone")
        async with serving(Server(database, tmp_path, env={**env, "TZ": "UTC"}), caller) as http:
            at_home = await read_all(http, ids, middle)
    moments = [moment for answer in abroad.values() for moment in times_in(answer)]
    print(f"{host}, database in {of_database}: {len(moments)} times, jobs after {took:.1f} s")
    odd = {path: wrong for path, a in abroad.items() if (wrong := [m for m in times_in(a) if not IN_UTC.fullmatch(m)])}
    assert odd == {}
    for path, answer in at_home.items():
        assert abroad[path] == answer, path
    placed = await sql.fetchrow(MISPLACED)
    assert (placed["count"] > 5, placed["wrong"], placed["apart_s"] < 60) == (True, 0, True)
    await check_slots(sql, tenant, began, ended)


async def check_slots(sql: asyncpg.Connection, tenant: UUID, began: datetime, ended: datetime) -> None:
    """Assert that each daily job was queued for a day, counted in UTC, that was there while the test ran."""
    rows = await sql.fetch("SELECT kind, slot FROM jobs WHERE tenant_id = $1 AND slot IS NOT NULL", tenant)
    days = {period_slot(moment, 86400, offset_s(tenant, 86400)) for moment in (began, ended)}
    assert {row["slot"] for row in rows} <= days
    assert len(rows) == len(set(rows))


SUMMER_ENDS = datetime(2026, 10, 25, 1, tzinfo=UTC)
SUMMER_BEGINS = datetime(2027, 3, 28, 1, tzinfo=UTC)
CHANGES = pytest.mark.parametrize("change", [SUMMER_ENDS, SUMMER_BEGINS], ids=["25 hours", "23 hours"])


@pytest.fixture
async def berlin(sql: asyncpg.Connection, clock: DatabaseClock, database: Database) -> None:
    """A database in a zone whose days may have 23 or 25 hours, before the application connects to it."""
    await sql.execute(f"ALTER DATABASE {database.name} SET timezone = 'Europe/Berlin'")


async def drop_all_weeks(sql: asyncpg.Connection) -> None:
    """Drop the weeks that the migration made, so that a test makes its own."""
    for row in await sql.fetch(CHILDREN):
        await sql.execute(f"DROP TABLE partitions.{row['name']}")


def first_id(moment: datetime) -> str:
    """Return the smallest UUIDv7 of a time."""
    return str(UUID(int=int(moment.timestamp() * 1000) << 80))


@CHANGES
async def test_weeks_meet_at_monday_in_utc_where_a_day_has_23_or_25_hours(
    berlin: None, app: Application, clock: DatabaseClock, sql: asyncpg.Connection, change: datetime
) -> None:
    await drop_all_weeks(sql)
    for days in range(-20, 30, 5):
        await clock.travel(change + timedelta(days=days))
        for zone in ("Europe/Berlin", "UTC"):  # an operator's session, and one that a server would have
            await sql.execute(f"SET timezone = '{zone}'")
            done = await sql.fetchval("SELECT add_partitions()")
            assert json.loads(done) | {"added": []} == {"added": [], "moved": 0, "skipped": [], "busy": False}
        assert not (await app.retention.partitions.keep_partitions()).busy
    rows = await sql.fetch(CHILDREN)
    print(f"{len(rows)} partitions around {change}")
    wrong = {}
    for row in rows:
        begins = datetime.strptime(row["name"][-8:], "%Y%m%d").replace(tzinfo=UTC)
        assert (begins - MONDAY) % WEEK == timedelta()
        expected = f"FOR VALUES FROM ('{first_id(begins)}') TO ('{first_id(begins + WEEK)}')"
        if row["bound"] != expected:
            wrong[row["name"]] = row["bound"]
    assert wrong == {}


@CHANGES
async def test_jobs_are_queued_once_a_day_and_once_an_hour_where_a_day_has_23_or_25_hours(
    berlin: None, app: Application, caller: Caller, clock: DatabaseClock, sql: asyncpg.Connection, change: datetime
) -> None:
    began, hours = change - 36 * HOUR, 72
    for half in range(2 * hours):
        await clock.travel(began + half * HOUR / 2)
        await app.jobs.run.schedule_jobs()
        await sql.execute("UPDATE jobs SET state = 'done'")
    query = "SELECT slot, created_at FROM jobs WHERE tenant_id = $1 AND kind = $2 ORDER BY created_at"
    for kinds, period in ((DAILY, 24 * HOUR), (HOURLY, HOUR)):
        for kind in kinds:
            rows = await sql.fetch(query, caller.scope.tenant_id, str(kind))
            slots = [datetime.fromisoformat(row["slot"]) for row in rows]
            assert {late - early for early, late in pairwise(slots)} == {period}
            assert timedelta() <= rows[-1]["created_at"] - slots[-1] < period
            assert 0 <= len(rows) - hours * HOUR / period <= 1
    print(f"queued around {change}: {await sql.fetchval('SELECT count(*) FROM jobs')} jobs")


@CHANGES
async def test_an_hour_and_thirty_days_stay_as_long_where_a_day_has_23_or_25_hours(
    berlin: None, server: str, caller: Caller, clock: DatabaseClock, sql: asyncpg.Connection, change: datetime
) -> None:
    async with caller.client(server) as http:

        async def kept() -> bool:
            get = {"namespace": ["maya"], "key": "k", "refresh_ttl": False}
            answer = await http.post("/store/batch", json={"gets": [get]})
            return answer.json()["gets"] != [None]

        await clock.travel(change - HOUR / 2)
        put = {"namespace": ["maya"], "key": "k", "value": {}, "ttl_minutes": 60}
        assert (await http.post("/store/batch", json={"puts": [put]})).status_code == 200
        gone = (await remember(http))["id"]
        before = await sql.fetchval("SELECT clock_timestamp()")
        assert (await http.delete(f"/memory/{gone}")).status_code == 200
        purge_at = await sql.fetchval("SELECT purge_at FROM memories WHERE id = $1", UUID(gone))
        assert timedelta(minutes=-1) < purge_at - before - timedelta(days=30) < timedelta(minutes=1)
        await clock.travel(change + HOUR / 2 - timedelta(minutes=1))
        assert await kept()
        await clock.travel(change + HOUR / 2 + timedelta(minutes=1))
        assert not await kept()
        print(f"around {change}: an hour was an hour; to be purged {purge_at}")


async def test_a_week_is_not_dropped_an_hour_early_where_a_day_had_23_hours(
    berlin: None, app: Application, caller: Caller, clock: DatabaseClock, sql: asyncpg.Connection
) -> None:
    ends = datetime(2027, 1, 25, tzinfo=UTC)
    due = ends + timedelta(days=90)
    last = ends - timedelta(minutes=1)
    await drop_all_weeks(sql)
    await clock.travel(last)
    await app.retention.partitions.keep_partitions()
    await sql.execute(
        """INSERT INTO events (tenant_id, id, user_id, node, op, status, ts)
           VALUES ($1, $2, 'maya', 'context', 'search', 'ok', $3)""",
        *(caller.scope.tenant_id, UUID(first_id(last)), last),
    )
    count = "SELECT count(*) FROM events WHERE id = $1"
    for moment, left in ((due - HOUR / 2, 1), (due + HOUR / 2, 0)):
        await clock.travel(moment)
        report = await app.retention.partitions.keep_partitions()
        dropped = [week.week for week in report.dropped if week.rows.get("events")]
        print(f"{moment - last} after the row was written: dropped {dropped}")
        assert await sql.fetchval(count, UUID(first_id(last))) == left


BACK = pytest.mark.parametrize("back", [HOUR, timedelta(days=400)], ids=["an hour", "400 days"])
STORED = """
SELECT (SELECT count(*) FROM memories), (SELECT count(*) FROM memories WHERE state = 'active'),
       (SELECT count(*) FROM facts WHERE removed_at IS NULL), (SELECT count(*) FROM change_log),
       (SELECT count(*) FROM history)
"""


async def set_back(clock: DatabaseClock, whose: str, back: timedelta) -> None:
    """Set clocks wrong by this much, or right with zero. `whose`: process, database or both."""
    if whose != "database":
        clock.set_process_wrong(seconds=-back.total_seconds())
    if whose != "process":
        await clock.set_database(-back)


async def colors(http: httpx.AsyncClient, text: str = "") -> str:
    """Say a text, if there is one; return the value of the fact."""
    if text:
        stored = await http.post("/facts", json={"user_id": "maya", "text": text})
        assert stored.status_code == 201, stored.text
    [fact] = (await http.get("/facts?user_id=maya")).json()["items"]
    return str(fact["value"])


async def fill(http: httpx.AsyncClient) -> None:
    """Store a memory, a soft-deleted one, a turn and a fact."""
    await remember(http)
    gone = (await remember(http, "Maya keeps bees."))["id"]
    assert (await http.delete(f"/memory/{gone}")).status_code == 200
    await say(http)
    assert await colors(http, "My favorite color is blue.") == "blue"


@BACK
@pytest.mark.parametrize("whose", ["process", "database", "both"])
async def test_clocks_that_are_set_back_delete_nothing_and_a_correction_wins(
    app: Application,
    server: str,
    caller: Caller,
    clock: DatabaseClock,
    sql: asyncpg.Connection,
    whose: str,
    back: timedelta,
) -> None:
    async with caller.client(server) as http:
        await fill(http)
        assert (await http.get("/ready")).json()["checks"]["clock"] == "ok"
        await set_back(clock, whose, back)
        trusted = whose == "both" and back == HOUR
        ready = await http.get("/ready")
        assert (ready.status_code, "clock_skew" in ready.json()["checks"]["clock"]) == (
            (200 if trusted else 503),
            not trusted,
        )
        await remember(http, "Maya plays chess.")
        await say(http, "We meet at noon.")
        value = await colors(http, "My favorite color is green.")
        stored = await sql.fetchrow(STORED)
        for job in ("ttl", "purge", "retention"):
            with nullcontext() if trusted else pytest.raises(ClockSkew):
                await app.retention.forget.run_job(caller.scope, job)
        with nullcontext() if trusted else pytest.raises(ClockSkew):
            await app.retention.partitions.keep_partitions()
        assert await sql.fetchrow(STORED) == stored
        print(f"{whose} set back by {back}: {ready.json()['checks']['clock'][:60]}; the fact is {value}")
        await set_back(clock, whose, timedelta())
        assert (await http.get("/ready")).status_code == 200  # and the server follows the database's clock again
        assert await colors(http, "My favorite color is red.") == "red"
        assert trusted or value == "green"  # where all clocks agree on an earlier time, the statement is the older one


@BACK
async def test_jobs_go_on_while_the_databases_clock_is_set_back(
    app: Application,
    caller: Caller,
    clock: DatabaseClock,
    sql: asyncpg.Connection,
    database: Database,
    redis: RedisServer,
    tmp_path: Path,
    back: timedelta,
) -> None:
    followed = "SELECT count(*) FROM jobs WHERE kind = 'after_turn' AND state = 'done'"
    swept = "SELECT count(*) FROM jobs WHERE kind = 'ttl' AND {}"

    async def finished() -> bool:
        return not await sql.fetchval("SELECT count(*) FROM jobs WHERE kind = 'after_turn' AND state <> 'done'")

    async def refused() -> bool:
        return bool(await sql.fetchval(swept.format("last_error ~ 'clock_skew'")))

    async def swept_again() -> bool:
        return bool(await sql.fetchval(swept.format("state = 'done' AND created_at >= $1"), right))

    jobs = {"schedule": {"ttl": 1}, "max_attempts": 8}
    with background(tmp_path, database.app, redis.url, jobs) as workers:
        env = {"MNEMA_REDIS_URL": redis.url, "MNEMA_WORKER_QUEUE": workers.queue}
        async with serving(Server(database, tmp_path, env=env), caller) as http:
            workers.worker(), workers.beat()
            await fill(http)
            await until(finished, "a first turn to be followed up", PATIENCE_S)
            await clock.set_database(-back)
            assert (await http.get("/ready")).status_code == 503
            for number in range(10):
                await say(http, f"Turn {number} of the past.")
            took = await until(finished, "the turns to be followed up", PATIENCE_S)
            waited = await until(refused, "a sweep to be refused", PATIENCE_S)
            stored = await sql.fetchrow(STORED)
            await clock.set_database(timedelta())
            right = await sql.fetchval("SELECT clock_timestamp()")
            again = await until(swept_again, "a sweep to be done", PATIENCE_S)
            assert (await http.get("/ready")).status_code == 200
            assert await sql.fetchrow(STORED) == stored
            print(
                f"set back by {back}: {await sql.fetchval(followed)} turns followed up, after {took:.1f} s; "
                f"a sweep was refused after {waited:.1f} s, and done {again:.1f} s after the clock was right"
            )
            assert "Traceback" not in workers.log
