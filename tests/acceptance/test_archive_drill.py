"""A cluster is destroyed and recovered to a named time from its base backup and its archive of WAL.

`pytest -s` shows what happened.
"""

import asyncio
import itertools
import math
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from mnema_cli.mirror.adapters.http import HttpMirrorStore
from pydantic import SecretStr

from app.bootstrap import Doubles, build_application
from app.bootstrap.administration import diagnose_installation
from app.config.settings import Settings
from app.domain.jobs.job import JobPolicy
from app.storage.jobs.jobs import JobStorage
from tests.acceptance.processes import mnema
from tests.acceptance.serving import Server
from tests.api.calls import delta, history_of, listed, refused, remember, say
from tests.api.changes import POLLS, follow_changes, read_changes, read_page
from tests.archived_postgres import ArchivedPostgres
from tests.background import background, until
from tests.conftest import SECRET_KEY, Database, roomy_memory
from tests.factories import Caller, body, make_caller
from tests.own_postgres import OwnPostgres, connected, guarded, spend_ids
from tests.redis_server import RedisServer
from tests.usecases.crowd import SeededEmbedder

WRITERS = 4
WRITES = 5
"""The writes of each writer that are acknowledged on either side of the named time, at least."""

POINT = "before_the_accident"
THREAD = "launch"
JOBS = JobPolicy(lease_s=5, heartbeat_s=1)
WAIT_S = 60
ERASED_EARLY, ERASED_LATE = "Ana keeps bees behind the barn.", "Ben plays the cello on Sundays."
pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.xdist_group("workers")]


@pytest.fixture
def archived() -> Iterator[ArchivedPostgres]:
    """A cluster outside pytest's tmp_path, which only root may traverse."""
    with tempfile.TemporaryDirectory(prefix="mnema-archive-", dir=roomy_memory()) as folder:
        made = ArchivedPostgres(Path(folder))
        try:
            yield made
        finally:
            made.home.postgres.stop_server("immediate")


@asynccontextmanager
async def recovered(archived: ArchivedPostgres) -> AsyncIterator[OwnPostgres]:
    """Destroy the cluster and run the one that is recovered to the named time."""
    await asyncio.to_thread(archived.destroy)
    second = await archived.recover(POINT)
    try:
        yield second
    finally:
        await asyncio.to_thread(second.home.postgres.stop_server, "immediate")


@asynccontextmanager
async def running(database: Database, home: Path, caller: Caller, **env: str) -> AsyncIterator[httpx.AsyncClient]:
    """Run a real server on this database; yield the caller's client. It is killed at the end."""
    server = Server(database, home, env=env)
    try:
        await server.start()
        async with caller.client(server.url) as client:
            yield client
    finally:
        server.kill()


def make_folder(path: Path) -> Path:
    """Create a folder and return it."""
    path.mkdir()
    return path


def settings_on(database: Database, home: Path) -> Settings:
    """Return the settings of a process on this database."""
    return Settings(database_url=SecretStr(database.app), secret_key=SecretStr(SECRET_KEY), home=home, pool_min=1)


@dataclass
class Write:
    """A write of a crowd, with the times of a monotonic clock."""

    text: str
    sent_at: float
    acknowledged_at: float = math.inf


@dataclass
class Crowd:
    """Clients that write all the time; the first one writes for Maya."""

    client: httpx.AsyncClient
    writes: list[Write] = field(default_factory=list)
    stopped: bool = False

    async def work(self, number: int) -> None:
        """Write until told to stop."""
        user = f"u{number}" if number else "maya"
        for step in itertools.count():
            if self.stopped:
                return
            write = Write(f"Invoice {number * 100_000 + step} is settled.", time.monotonic())
            self.writes.append(write)
            answer = await remember(self.client, write.text, user_id=user)
            assert answer["action"] == "created"
            write.acknowledged_at = time.monotonic()

    async def until_more(self, tasks: list["asyncio.Task[None]"]) -> None:
        """Wait until more writes are acknowledged, or a writer has failed."""
        wanted = self._acknowledged() + WRITERS * WRITES

        async def wrote() -> bool:
            return self._acknowledged() >= wanted or any(task.done() for task in tasks)

        await until(wrote, "more writes", WAIT_S)

    def _acknowledged(self) -> int:
        return sum(write.acknowledged_at < math.inf for write in self.writes)


@dataclass
class Reader:
    """A client that follows Maya's changes and keeps each cursor, with the versions that it knew then."""

    client: httpx.AsyncClient
    places: list[tuple[str, Mapping[str, int]]] = field(default_factory=list)
    stopped: bool = False

    async def follow(self, cursor: str) -> None:
        """Read small pages until told to stop."""
        known: dict[str, int] = {}
        self.places.append((cursor, {}))
        while not self.stopped:
            page = await read_changes(self.client, cursor, limit=10)
            known |= versions(page)
            if page["next_cursor"] != cursor:
                cursor = page["next_cursor"]
                self.places.append((cursor, dict(known)))
            await asyncio.sleep(0.01)

    async def until_knows(self, memory: str) -> None:
        """Wait until the reader has read of this memory."""

        async def knows() -> bool:
            return memory in self.places[-1][1]

        await until(knows, "the reader to read on", WAIT_S)


def versions(page: Mapping[str, Any]) -> dict[str, int]:
    """Return the versions of a page of memories, by id."""
    return {memory["id"]: memory["version"] for memory in page["items"]}


@dataclass
class Past:
    """The state before the named time, as clients know it."""

    begun: str
    kept: str
    revision: int
    keyed: str
    history: list[dict[str, Any]]
    facts: str
    job: UUID


@dataclass
class Lost:
    """The state after the named time: cursors of clients, and a memory that is lost."""

    cursor: str
    memory: str
    revision: int
    last_id: int = 0


KEYED, KEYED_LATE = "a key before the time", "a key after the time"


async def send_keyed(client: httpx.AsyncClient, key: str) -> str:
    """Write a memory with an idempotency key; return its id."""
    answer = await client.post("/memory", json=body(f"Maya has {key}."), headers={"Idempotency-Key": key})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def erase(client: httpx.AsyncClient, user: str) -> None:
    """Erase a user."""
    answer = await client.post(f"/users/{user}/erase")
    assert answer.is_success, answer.text


async def answer_fact(client: httpx.AsyncClient) -> str:
    """Return the answer to a question about Maya's facts."""
    question = {"user_id": "maya", "query": "What's my second favorite color?"}
    answer = await client.post("/facts/answer", json=question)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["text"])


async def live_before(client: httpx.AsyncClient) -> Past:
    """Write before the named time; return what clients know."""
    kept = await remember(client, thread_id=THREAD)
    begun = (await read_changes(client))["next_cursor"]
    await client.patch(f"/memory/{kept['id']}", json={"text": "Maya drinks oat milk, warm."})
    await remember(client, ERASED_EARLY, user_id="ana")
    await erase(client, "ana")
    await remember(client, ERASED_LATE, user_id="ben")
    told = {"user_id": "maya", "text": "My favorite colors are blue, green and black."}
    assert (await client.post("/facts", json=told)).is_success
    await say(client, "Shall we talk on Friday?")
    job = (await client.get("/jobs")).json()["items"][0]
    revision = (await delta(client, THREAD, since_rev=0))["rev"]
    history = await history_of(client, kept["id"])
    keyed = await send_keyed(client, KEYED)
    facts = await answer_fact(client)
    assert "green" in facts
    return Past(begun, kept["id"], revision, keyed, history, facts, UUID(job["id"]))


async def live_after(client: httpx.AsyncClient, past: Past) -> Lost:
    """Write after the named time, and read what is lost later; return what clients know."""
    await client.patch(f"/memory/{past.kept}", json={"text": "Maya drinks black coffee."})
    lost = await remember(client, "Maya sings in the choir.", thread_id=THREAD)
    await send_keyed(client, KEYED_LATE)
    await say(client, "Shall we talk on Monday?")
    await erase(client, "ben")
    revision = (await delta(client, THREAD, since_rev=0))["rev"]
    cursor, found = past.begun, dict[str, Any]()
    while lost["id"] not in found:
        found, cursor = await follow_changes(client, cursor, 0)
    return Lost(cursor, lost["id"], revision)


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    """A client for the mirror, which does not know asyncio."""
    with httpx.Client(timeout=30) as client:
        yield client


class Mirrors:
    """The mirror's command with a folder, and the part of it that stays and follows changes."""

    def __init__(self, http: httpx.Client, caller: Caller, root: Path) -> None:
        self._http = http
        self._root = root
        self._env = {"MNEMA_API_KEY": caller.key, "MNEMA_HOME": root.parent}
        http.headers.update(caller.headers)
        self._store = HttpMirrorStore(http, "maya", "preferences", time.sleep)

    def move_to(self, client: httpx.AsyncClient) -> None:
        """Ask this client's server from now on."""
        self._http.base_url = client.base_url
        self._env["MNEMA_URL"] = str(client.base_url)

    async def read_both(self) -> tuple[set[str], set[str]]:
        """Return the texts of the files after a run, and those that the store follows."""
        done = await mnema("mirror", "--root", str(self._root), "--user", "maya", "--allow-mass-deletion", **self._env)
        assert done.returncode == 0, done.stdout + done.stderr
        files = {file.read_text().split("---")[2].strip() for file in self._root.rglob("*.md")}
        return files, {entry.text for entry in await asyncio.to_thread(self._store.list_entries)}


async def check_writes(client: httpx.AsyncClient, crowd: Crowd, asked: float, made: float) -> None:
    """Assert that exactly the writes of before the named time are stored, each once."""
    stored: list[str] = []
    for number in range(WRITERS):
        user = f"u{number}" if number else "maya"
        page = await listed(client, user_id=user, limit=200)
        stored += [memory["text"] for memory in page if memory["text"].startswith("Invoice")]
    early = {write.text for write in crowd.writes if write.acknowledged_at < asked}
    late = {write.text for write in crowd.writes if write.sent_at > made}
    between = {write.text for write in crowd.writes} - early - late
    assert len(stored) == len(set(stored))
    assert early <= set(stored) <= early | between
    print(f"{len(early)} writes were acknowledged before the time: all are there, none twice")
    print(f"{len(late)} writes were sent after it: none is there; {len(between)} were under way at it")
    assert min(len(early), len(late)) >= WRITES


async def check_state(client: httpx.AsyncClient, past: Past, lost: Lost) -> None:
    """Assert that memories, history, facts, keys and erasures are those of the named time."""
    kept = (await client.get(f"/memory/{past.kept}")).json()
    assert (kept["text"], kept["version"]) == ("Maya drinks oat milk, warm.", 2)
    assert await history_of(client, past.kept) == past.history
    refused(await client.get(f"/memory/{lost.memory}"), 404, "not_found")
    assert await answer_fact(client) == past.facts
    assert await send_keyed(client, KEYED) == past.keyed
    assert await send_keyed(client, KEYED_LATE) == await send_keyed(client, KEYED_LATE)
    assert await listed(client, user_id="ana") == []
    assert (await remember(client, ERASED_EARLY, user_id="ana"))["reason"] == "erased"
    print("history, facts and keys are those of the time; who was erased before it stays erased")
    assert [memory["text"] for memory in await listed(client, user_id="ben")] == [ERASED_LATE]
    await erase(client, "ben")
    assert await listed(client, user_id="ben") == []
    assert (await remember(client, ERASED_LATE, user_id="ben"))["reason"] == "erased"
    print("an erasure made after the time is undone by the recovery: the operator must repeat it, and it holds again")


async def check_delta(client: httpx.AsyncClient, past: Past, lost: Lost) -> None:
    """Assert that a delta from the beginning tells all, and that one from a lost revision is truncated until then."""
    assert (await delta(client, THREAD, since_rev=0))["rev"] == past.revision
    told = [(await delta(client, THREAD, since_rev=rev))["truncated"] for rev in (past.revision, lost.revision)]
    assert told == [False, True]
    added = [
        await remember(client, f"Maya owns {name}.", thread_id=THREAD) for name in ("a kayak", "two cats", "a loom")
    ]
    whole, later = [await delta(client, THREAD, since_rev=rev) for rev in (0, lost.revision)]
    assert whole["rev"] == past.revision + len(added) > lost.revision
    assert count_told(whole) == 1 + len(added)
    print(
        f"revision {lost.revision} was told before the recovery, which went back to {past.revision}: of {len(added)} "
        f"later writes a delta since {lost.revision} tells {count_told(later)}, one since 0 all"
    )


def count_told(told: Mapping[str, Any]) -> int:
    """Return the number of changed memories in a delta."""
    return int(told["header"].count("\n- ")) + int(told["more"])


async def check_cursors(client: httpx.AsyncClient, reader: Reader, lost: Lost, second: OwnPostgres) -> None:
    """Assert that each old cursor is refused or skips nothing, before and after the lost ids are used again."""
    assert await spend_ids(second.superuser, 1) < lost.last_id
    for later in (False, True):
        new = await remember(client, f"Maya rows a boat of {later} colour.")
        stored = await stored_versions(second)
        accepted = 0
        for cursor, known in reader.places:
            missing = await catch_up(client, cursor, known, stored)
            assert not missing, (later, missing)
            accepted += missing is not None
        gone = await client.get("/changes", params={"user_id": "maya", "after": lost.cursor})
        refused(gone, 410, "cursor_of_other_database")
        assert new["id"] in stored
        assert 0 < accepted < len(reader.places)
        print(f"of {len(reader.places)} cursors {accepted} went on and skipped nothing, the others were refused (410)")
        if not later:
            assert await spend_ids(second.superuser, lost.last_id) > lost.last_id


async def stored_versions(postgres: OwnPostgres) -> dict[str, int]:
    """Return the versions of Maya's memories, by id, as the superuser sees them."""
    async with connected(postgres.superuser) as sql:
        rows = await sql.fetch("SELECT id::text, version FROM memories WHERE user_id = 'maya'")
    return {row["id"]: row["version"] for row in rows}


async def catch_up(
    client: httpx.AsyncClient, cursor: str, known: Mapping[str, int], stored: Mapping[str, int]
) -> dict[str, int] | None:
    """Return what a reader with this cursor and this knowledge never learns; None if its cursor is refused."""
    known, missing = dict(known), dict(stored)
    for _poll in range(POLLS):
        params = {"user_id": "maya", "after": cursor, "limit": 200, "memory": True}
        answer = await client.get("/changes", params=params)
        if answer.status_code == 410:
            refused(answer, 410, "cursor_of_other_database")
            return None
        page = read_page(answer)
        known |= versions(page)
        cursor = page["next_cursor"]
        missing = {id_: version for id_, version in stored.items() if known.get(id_) != version}
        if not page["more"] and not missing:
            break
        await asyncio.sleep(0.02)
    return missing


async def check_jobs(second: OwnPostgres, past: Past, redis: RedisServer, folder: Path, queue: str) -> None:
    """Assert that a worker does the job that ran at the named time, and all others."""
    with background(folder, second.database.app, redis.url, MNEMA_WORKER_QUEUE=queue) as workers:
        async with connected(second.superuser) as sql:
            before = await sql.fetchrow("SELECT state, worker, attempts FROM jobs WHERE id = $1", past.job)
            assert tuple(before) == ("running", "a lost worker", 1)
            with redis.client() as messages:
                print(f"{messages.llen(queue)} messages wait in the queue, also of jobs that are lost")
            workers.worker()

            async def finished() -> bool:
                return not await sql.fetchval("SELECT count(*) FROM jobs WHERE state <> 'done'")

            await until(finished, "all jobs to be done", WAIT_S)
            assert await sql.fetchval("SELECT attempts FROM jobs WHERE id = $1", past.job) == 2
            count = await sql.fetchval("SELECT count(*) FROM jobs")
        await asyncio.to_thread(workers.stop)
        assert "Traceback" not in workers.log
    print(f"all {count} jobs were done, also the one that ran at the time")


@asynccontextmanager
async def crowded(client: httpx.AsyncClient, begun: str) -> AsyncIterator[tuple[Crowd, Reader, list[Any]]]:
    """Run the writers and the reader until the block ends."""
    crowd, reader = Crowd(client), Reader(client)
    tasks = [asyncio.create_task(crowd.work(number)) for number in range(WRITERS)]
    tasks.append(asyncio.create_task(reader.follow(begun)))
    try:
        yield crowd, reader, tasks
    finally:
        crowd.stopped = reader.stopped = True
        await asyncio.gather(*tasks)


async def test_a_recovery_to_a_named_time_has_all_of_before_and_nothing_of_after(
    archived: ArchivedPostgres, redis: RedisServer, http: httpx.Client, tmp_path: Path
) -> None:
    database, queue = await archived.prepare(), f"q-{uuid4().hex}"
    one, two, workers = [make_folder(tmp_path / name) for name in ("one", "two", "workers")]
    broker = {"MNEMA_REDIS_URL": redis.url, "MNEMA_WORKER_QUEUE": queue}
    doubles = Doubles(embedder=SeededEmbedder())
    async with build_application(settings_on(database, tmp_path), doubles) as app:
        caller, stranger = await make_caller(app), await make_caller(app)
        mirrors = Mirrors(http, caller, tmp_path / "notes")
        async with running(database, one, caller, **broker) as client:
            mirrors.move_to(client)
            past = await live_before(client)
            jobs = JobStorage(app.parts.uow, JOBS)
            assert await jobs.start_job(caller.scope, past.job, "a lost worker")
            async with crowded(client, past.begun) as (crowd, reader, tasks):
                await asyncio.to_thread(archived.back_up)
                await crowd.until_more(tasks)
                asked = time.monotonic()
                await archived.name_time(POINT)
                made = time.monotonic()
                await crowd.until_more(tasks)
                lost = await live_after(client, past)
                await reader.until_knows(lost.memory)
            assert await jobs.finish_job(caller.scope, past.job, "a lost worker", {})
            before = await mirrors.read_both()
            lost.last_id = await archived.archive_all()
    async with recovered(archived) as second:
        async with running(second.database, two, caller, **broker) as client:
            mirrors.move_to(client)
            await check_writes(client, crowd, asked, made)
            after = await mirrors.read_both()
            texts = {memory["text"] for memory in await listed(client, user_id="maya", limit=200)}
            assert before[0] == before[1] != after[0] == after[1] == texts
            print(f"the mirror followed: {len(before[0])} entries before the recovery, {len(texts)} after it")
            await check_state(client, past, lost)
            await check_cursors(client, reader, lost, second)
            await check_delta(client, past, lost)
            async with stranger.client(str(client.base_url)) as other:
                refused(await other.get(f"/memory/{past.kept}"), 404, "not_found")
                assert await listed(other) == []
            await say(client, "Shall we talk on Tuesday?")
            await check_jobs(second, past, redis, workers, queue)
            ready = await client.get("/ready")
            assert ready.status_code == 200, ready.text
        await guarded(second.database.app, caller)
        checks = await diagnose_installation(settings_on(second.database, tmp_path))
        assert (checks["migrations"], checks["schema"], checks["role"]) == ("ok", "ok", "ok"), checks
