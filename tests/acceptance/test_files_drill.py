"""Documents and blobs under kills: of the store of blobs, of the workers and of the server.

MNEMA_FILES_DRILL sets the number of kills of each drill. `pytest -s` shows what happened.
"""

import asyncio
import hashlib
import itertools
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.acceptance.durable_s3 import DurableS3
from tests.acceptance.serving import Server
from tests.background import Background, Process, background, children, kill_group, until
from tests.conftest import Database
from tests.factories import Caller
from tests.redis_server import RedisServer
from tests.s3_server import ACCESS_KEY, SECRET_KEY
from tests.usecases.crowd import SeededEmbedder
from tests.usecases.sources.indexing import check_whole

KILLS = int(os.environ.get("MNEMA_FILES_DRILL", "6"))
UPLOADERS, TALKERS, PATHS = 3, 3, 12
FILES = 200
WAIT_S = 60
"""Seconds after which a drill has failed that waits for the index."""

MANY_ATTEMPTS = {"max_attempts": 50}
"""The attempts of a job: more than kills, because the tests' pauses between attempts are short."""

TEXTS = """SELECT f.path, f.state, array_agg(m.text ORDER BY c.ordinal) FILTER (WHERE m.id IS NOT NULL) AS texts
FROM files f LEFT JOIN chunks c ON c.file_id = f.id AND c.tenant_id = f.tenant_id
LEFT JOIN memories m ON m.id = c.memory_id AND m.tenant_id = c.tenant_id AND m.state = 'active'
WHERE f.source_id = $1 GROUP BY f.tenant_id, f.id"""
URIS = """SELECT hosted_uri FROM conv_messages WHERE hosted_uri IS NOT NULL
UNION SELECT hosted_uri FROM files WHERE hosted_uri IS NOT NULL"""
pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.xdist_group("workers")]


@pytest.fixture
def embedder() -> SeededEmbedder:
    """The embedder of this process; server and workers use the real model."""
    return SeededEmbedder()


@pytest.fixture
def s3_store(tmp_path: Path) -> Iterator[DurableS3]:
    """A store of blobs that runs."""
    store = DurableS3(tmp_path / "objects")
    store.start()
    yield store
    store.kill()


async def read_index(sql: asyncpg.Connection, source_id: str) -> dict[str, tuple[str, str]]:
    """Return state and text of each file of a source, by path."""
    rows = await sql.fetch(TEXTS, source_id)
    assert len(rows) == len({row["path"] for row in rows}), "each path is there once"
    return {row["path"]: (row["state"], "\n".join(row["texts"] or [])) for row in rows}


async def wait_for_index(sql: asyncpg.Connection, source_id: str, files: dict[str, str], log: Background) -> float:
    """Wait until the index has exactly these files with these texts; return the seconds. Say what differs if not."""
    wanted = {path: ("indexed", text.strip()) for path, text in files.items()}

    async def is_right() -> bool:
        return await read_index(sql, source_id) == wanted

    try:
        return await until(is_right, "the index to have the last contents", WAIT_S)
    except AssertionError:
        found = await read_index(sql, source_id)
        wrong = {path: (found.get(path), wanted.get(path)) for path in found.keys() | wanted.keys()}
        wrong = {path: pair for path, pair in wrong.items() if pair[0] != pair[1]}
        jobs = await sql.fetch("SELECT kind, state, attempts, last_error FROM jobs WHERE state <> 'done'")
        print(f"{len(wrong)} files are wrong, such as {list(wrong.items())[:5]}; jobs: {jobs}; {log.log[-3000:]}")
        raise


@dataclass
class Writers:
    """Clients that store blobs until they are stopped. `files` and `turns`: the acknowledged contents.

    `answers` counts the statuses with the codes of refusals.
    """

    http: httpx.AsyncClient
    source_id: str
    files: dict[str, str] = field(default_factory=dict)
    file_ids: dict[str, str] = field(default_factory=dict)
    turns: dict[str, str] = field(default_factory=dict)
    answers: Counter[tuple[int, str]] = field(default_factory=Counter)
    stopped: bool = False

    async def ask(self, method: str, url: str, **options: Any) -> httpx.Response:
        """Ask until the answer is a success. A refusal is a 503 with a code."""
        while True:
            answer = await self.http.request(method, url, **options)
            code = "" if answer.is_success else answer.json()["code"]
            self.answers[answer.status_code, code] += 1
            if answer.is_success:
                return answer
            assert (answer.status_code, bool(code)) == (503, True), f"{method} {url}: {answer.text}"
            await asyncio.sleep(0.1)

    async def upload(self, name: str) -> None:
        """Upload files; write over them, too. Read each second one at once."""
        for number in itertools.count():
            if self.stopped:
                return
            path, text = f"{name}/{number % PATHS}.txt", f"Crate {number} of {name} has {random.random()} apples."
            url = f"/sources/{self.source_id}/files"
            answer = await self.ask("POST", url, params={"path": path}, content=text.encode())
            self.files[path], self.file_ids[path] = text, answer.json()["file"]["id"]
            if number % 2:
                assert (await self.read_file(path)).text == text

    async def read_file(self, path: str) -> httpx.Response:
        """Read an acknowledged file."""
        return await self.ask("GET", f"/sources/{self.source_id}/files/{self.file_ids[path]}/content")

    async def talk(self, name: str) -> None:
        """Store turns and their fingerprints, each of which writes a blob. Read each second one at once."""
        for number in itertools.count():
            if self.stopped:
                return
            turn, text = f"{name}-{number}", f"Turn {number} of {name}."
            url = f"/conversations/talk/turns/{turn}"
            await self.ask("PUT", url, json={"user_id": "maya", "user_text": text})
            self.turns[turn] = text
            await self.ask("PUT", f"{url}/fingerprint", json={"user_id": "maya", "objective": text})
            if number % 2:
                await self.check_turn(turn)

    async def check_turn(self, turn: str) -> None:
        """Check that the whole turn is there."""
        answer = await self.ask("GET", f"/conversations/talk/turns/{turn}", params={"user_id": "maya"})
        assert answer.json()["content"]["turn_log"]["user_text"] == self.turns[turn]


async def test_a_killed_store_of_blobs_loses_no_upload_and_no_turn(
    s3_store: DurableS3,
    caller: Caller,
    database: Database,
    redis: RedisServer,
    sql: asyncpg.Connection,
    tmp_path: Path,
) -> None:
    env = {
        "MNEMA_BLOB_STORE": "s3",
        "MNEMA_BLOB_S3_BUCKET": "drill",
        "MNEMA_BLOB_S3_ENDPOINT_URL": s3_store.url,
        "MNEMA_BLOB_S3_ACCESS_KEY": ACCESS_KEY,
        "MNEMA_BLOB_S3_SECRET_KEY": SECRET_KEY,
        "MNEMA_BLOB_S3_TIMEOUT_S": "2",
    }
    for name in ("server", "workers"):
        (tmp_path / name).mkdir()
    with background(tmp_path / "workers", database.app, redis.url, MANY_ATTEMPTS, **env) as workers:
        queue = {"MNEMA_REDIS_URL": redis.url, "MNEMA_WORKER_QUEUE": workers.queue}
        server = Server(database, tmp_path / "server", env={**env, **queue})
        workers.worker()
        try:
            await server.start()
            async with caller.client(server.url) as http:
                source = await http.post("/sources", json={"name": "crates", "user_id": "maya"})
                writers = Writers(http, source.json()["id"])
                await write_under_kills(writers, s3_store)
                took = await wait_for_index(sql, writers.source_id, writers.files, workers)
                for path, text in writers.files.items():
                    assert (await writers.read_file(path)).text == text
                for turn in writers.turns:
                    await writers.check_turn(turn)
            await check_whole(sql)
            await until(partial(are_replaced_blobs_gone, sql, s3_store), "the replaced blobs to be deleted", WAIT_S)
            await check_blobs(sql, writers, s3_store)
            print(f"{KILLS} kills; {len(writers.files)} files, {len(writers.turns)} turns; {dict(writers.answers)}")
            print(f"all files were indexed {took:.1f} s after the last upload")
            assert "Traceback" not in server.log
        finally:
            server.kill()


async def write_under_kills(writers: Writers, s3_store: DurableS3) -> None:
    """Let clients write while the store is killed and started again; end when all writes are acknowledged."""
    uploading = [writers.upload(f"box{n}") for n in range(UPLOADERS)]
    writing = asyncio.gather(*uploading, *(writers.talk(f"talk{n}") for n in range(TALKERS)))
    for _kill in range(KILLS):
        await asyncio.wait([writing], timeout=random.uniform(0.3, 1.5))
        if writing.done():
            break  # a client failed
        s3_store.kill()
        await asyncio.sleep(random.uniform(0.1, 3))
        await asyncio.to_thread(s3_store.start)
    writers.stopped = True
    await writing


async def are_replaced_blobs_gone(sql: asyncpg.Connection, s3_store: DurableS3) -> bool:
    """Return True if the store has no blob that was replaced."""
    rows = await sql.fetch("SELECT uri FROM swept_blobs")
    return not {row["uri"].replace("s3:", "drill/") for row in rows} & s3_store.keys


async def check_blobs(sql: asyncpg.Connection, writers: Writers, s3_store: DurableS3) -> None:
    """Check that no row names a missing blob, and that each file's hash is that of its acknowledged content."""
    named = {row["hosted_uri"].removeprefix("s3:") for row in await sql.fetch(URIS)}
    stored = {key.removeprefix("drill/") for key in s3_store.keys}
    assert named <= stored, f"rows name missing blobs: {named - stored}"
    hashes = {row["path"]: row["hash"].hex() for row in await sql.fetch("SELECT path, hash FROM files")}
    assert hashes == {path: hashlib.sha256(text.encode()).hexdigest() for path, text in writers.files.items()}


@dataclass
class ChangedFolder:
    """A folder that somebody changes all the time. `files`: the text of each file by its path, as it should be."""

    root: Path
    files: dict[str, str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def create(self) -> None:
        """Create a file in one of the folders."""
        number = next(self.numbers)
        self._write(f"part{number % 7}/{number}.txt", f"Note {number} begins.")

    def change(self) -> None:
        """Change a file in its place, often to one of the same size."""
        path, number = self._any_path(), next(self.numbers)
        self._write(path, f"Note {number} goes on.")

    def save_anew(self) -> None:
        """Save a file as many editors do: write another one and rename it."""
        path, text = self._any_path(), f"Note {next(self.numbers)} was saved anew."
        (self.root / ".saving.swp").write_text(text)
        (self.root / ".saving.swp").replace(self.root / path)
        self.files[path] = text

    def rename(self) -> None:
        """Rename a file, perhaps over another one."""
        path = self._any_path()
        other = random.choice([self._any_path(), f"moved/{next(self.numbers)}.txt"])
        (self.root / other).parent.mkdir(exist_ok=True)
        (self.root / path).replace(self.root / other)
        self.files[other] = self.files.pop(path)

    def delete(self) -> None:
        """Delete a file."""
        path = self._any_path()
        (self.root / path).unlink()
        del self.files[path]

    def rename_folder(self) -> None:
        """Rename a whole folder."""
        former = self._any_path().partition("/")[0]
        new = f"folder{next(self.numbers)}"
        (self.root / former).rename(self.root / new)
        for path in [path for path in self.files if path.startswith(f"{former}/")]:
            self.files[f"{new}/{path.partition('/')[2]}"] = self.files.pop(path)

    async def change_until(self, stopped: asyncio.Event) -> None:
        """Do one of these at a time. The number of files stays about the same."""
        acts = [self.create, self.change, self.change, self.save_anew, self.rename, self.delete]
        while not stopped.is_set():
            act = self.rename_folder if random.random() < 0.01 else random.choice(acts)
            act = self.create if len(self.files) < FILES * 0.9 else act
            act()
            self.done[act.__name__] += 1
            await asyncio.sleep(random.uniform(0, 0.1))

    def _any_path(self) -> str:
        return random.choice(sorted(self.files))

    def _write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)
        self.files[path] = text


async def test_killed_workers_and_a_killed_server_leave_the_index_as_the_folder_is(
    caller: Caller, database: Database, redis: RedisServer, sql: asyncpg.Connection, tmp_path: Path
) -> None:
    folder = ChangedFolder(tmp_path / "allowed" / str(caller.scope.tenant_id))
    for made in (tmp_path / "server", tmp_path / "workers", folder.root):
        made.mkdir(parents=True)
    for _file in range(FILES):
        folder.create()
    roots = {"MNEMA_SOURCE_ROOTS": f'["{tmp_path}/allowed/{{tenant}}"]'}
    with background(tmp_path / "workers", database.app, redis.url, MANY_ATTEMPTS, **roots) as workers:
        queue = {"MNEMA_REDIS_URL": redis.url, "MNEMA_WORKER_QUEUE": workers.queue}
        server = Server(database, tmp_path / "server", env={**roots, **queue})
        try:
            worker = workers.worker(concurrency=2)
            await server.start()
            async with caller.client(server.url) as http:
                place = {"name": "notes", "user_id": "maya", "root_path": str(folder.root)}
                added = await http.post("/sources", json=place)
                assert added.status_code == 201, added.text
                source_id = added.json()["id"]
            stopped = asyncio.Event()
            changing = asyncio.create_task(folder.change_until(stopped))
            kills = await kill_at_random(workers, worker, server, changing)
            stopped.set()
            await changing
            on_disk = {str(path.relative_to(folder.root)): path.read_text() for path in folder.root.rglob("*.txt")}
            assert on_disk == folder.files, "the drill knows the folder"
            took = await wait_for_index(sql, source_id, folder.files, workers)
            await check_whole(sql)
            print(f"kills: {dict(kills)}; changes: {dict(folder.done)}; {len(folder.files)} files in the end")
            print(f"the index was as the folder {took:.1f} s after the last change")
        finally:
            server.kill()


async def kill_at_random(
    workers: Background, worker: Process, server: Server, changing: "asyncio.Task[None]"
) -> Counter[str]:
    """Kill the whole worker or the processes of its pool in turn, and the server once; a worker is there at the end."""
    kills: Counter[str] = Counter()
    for number in range(KILLS):
        await asyncio.wait([changing], timeout=random.uniform(0.5, 5))
        if changing.done():
            break  # it failed
        if number == KILLS // 2:
            server.kill()
            await server.start()
            kills["server"] += 1
        if number % 2:
            for pid in children(worker):
                os.kill(pid, 9)
                kills["pool process"] += 1
        else:
            kill_group(worker)
            kills["worker"] += 1
            worker = workers.worker(concurrency=2)
    return kills
