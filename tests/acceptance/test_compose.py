"""The running stack of docker-compose.yml: both servers serve, killed ones come back, no acknowledged write is lost.

Set MNEMA_TEST_COMPOSE=1 to run it, on a machine with Docker and as root; without these it fails.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.acceptance.compose import BACK_S, READY_S, SERVERS, Stack
from tests.acceptance.processes import wait_until

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.xdist_group("compose"),
    pytest.mark.skipif(not os.environ.get("MNEMA_TEST_COMPOSE"), reason="MNEMA_TEST_COMPOSE=1 asks for it"),
]
PAUSE_S = 0.05
OURS = (*SERVERS, "worker", "beat")
ADMINISTRATORS = ("POSTGRES_PASSWORD", "MNEMA_ADMIN_PASSWORD", "MNEMA_BACKUP_PASSWORD")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The built stack, up and ready within a minute."""
    if missing := Stack.missing():
        pytest.fail(f"MNEMA_TEST_COMPOSE asks for Docker, but {missing}")
    made = Stack(tmp_path_factory.mktemp("compose"))
    made.run("build")
    try:
        began = time.monotonic()
        made.run("up", "-d")
        made.wait_ready(READY_S - (time.monotonic() - began))
        yield made
    finally:
        made.run("down", "-v")


@pytest.fixture(scope="module")
def key(stack: Stack) -> str:
    """An admin key, created as an operator does."""
    stack.execute("api-1", "mnema", "tenant", "create", "acme")
    return stack.execute("api-1", "mnema", "key", "create", "--tenant", "acme", "--scopes", "admin").split()[-1]


@pytest.fixture
async def servers(stack: Stack, key: str) -> AsyncIterator[list[httpx.AsyncClient]]:
    """A client of each server."""
    options: dict[str, Any] = {"headers": {"Authorization": f"Bearer {key}"}, "timeout": 30, "trust_env": False}
    clients = [httpx.AsyncClient(base_url=url, **options) for url in stack.urls]
    yield clients
    await asyncio.gather(*(client.aclose() for client in clients))


async def json_of(call: Any) -> Any:
    """Return the JSON body of a successful response."""
    response = await call
    assert response.is_success, response.text
    return response.json()


async def test_what_one_server_writes_the_other_finds_changes_and_tells_the_history_of(
    servers: list[httpx.AsyncClient],
) -> None:
    first, second = servers
    question: dict[str, Any] = {"agent": "planner", "query": "who reviews the checklist?", "thread_id": "launch"}
    question |= {"categories": ["tasks"], "filters": {"user_id": "maya"}}
    body = {"user_id": "maya", "category": "tasks", "thread_id": "launch", "text": "Maya reviews the checklist."}
    written = await json_of(first.post("/memory", json=body))
    found = await json_of(second.post("/memory/query", json=question))
    assert [item["id"] for item in found["items"]] == [written["id"]]
    assert "+created: [Tasks] Maya reviews the checklist." in found["header"]
    await json_of(second.patch(f"/memory/{written['id']}", json={"text": "Jonas reviews the checklist."}))
    changed = await json_of(first.post("/memory/query", json=question))
    assert "Jonas reviews the checklist." in changed["items"][0]["text"]
    assert "+created" not in changed["header"]
    told = [await json_of(server.get(f"/memory/{written['id']}/history")) for server in servers]
    assert told[0] == told[1]
    assert [entry["event"] for entry in told[0]["items"]] == ["UPDATE", "ADD"]


def test_no_server_and_no_worker_is_given_more_than_the_login_of_mnema_app(stack: Stack) -> None:
    for service in OURS:
        told = stack.execute(service, "env")
        assert stack.secrets["MNEMA_APP_PASSWORD"] in told
        assert [name for name in ADMINISTRATORS if stack.secrets[name] in told] == []
        assert stack.execute(service, "id", "-u").strip() == "10001"
        assert "10001" not in stack.execute(service, "stat", "-c", "%u", "/opt/mnema/app", "/opt/venv/bin").split()
        assert stack.execute(service, "sh", "-c", "command -v gcc cc make || echo none").strip() == "none"


def test_every_container_is_confined(stack: Stack) -> None:
    for service in (*OURS, "postgres", "redis"):
        host = stack.inspect(service)["HostConfig"]
        assert (host["ReadonlyRootfs"], host["CapDrop"], host["Privileged"]) == (True, ["ALL"], False), service
        assert "no-new-privileges:true" in host["SecurityOpt"], service
        assert (host["Memory"] > 0, host["PidsLimit"] > 0) == (True, True), service
        written = stack.execute(service, "sh", "-c", "touch /usr/x 2>&1 || true")
        assert "Read-only file system" in written, service


def test_no_password_stands_in_a_command_line_or_a_log(stack: Stack) -> None:
    logs = stack.run("logs", "--no-color")
    assert "schema is current" in logs
    lines = "".join(str(stack.inspect(service)["Config"]["Cmd"]) for service in (*OURS, "postgres", "redis"))
    assert [name for name, secret in stack.secrets.items() if secret in logs + lines] == []


def test_migrating_again_and_coming_up_again_change_nothing(stack: Stack) -> None:
    before = {service: stack.inspect(service)["State"]["StartedAt"] for service in OURS}
    assert "schema is current" in stack.run("run", "--rm", "migrate")
    stack.run("run", "--rm", "migrate", "alembic", "upgrade", "head")
    stack.run("up", "-d")
    assert {service: stack.inspect(service)["State"]["StartedAt"] for service in OURS} == before
    assert stack.verdicts() == ["ready", "ready"]


class Talk:
    """Turns sent to both servers concurrently, each over its own connection, with a record of the acknowledged ones."""

    def __init__(self, servers: list[httpx.AsyncClient], name: str) -> None:
        self._servers = servers
        self._name = name
        self.acknowledged: list[tuple[str, str]] = []

    async def _say(self, server: httpx.AsyncClient, said: str) -> None:
        number = 0
        while True:
            number += 1
            body = {"user_id": "maya", "role": "user", "content": f"{said} says {number}."}
            body["thread_id"] = f"{self._name} {number // 100}"  # a thread keeps only its newest entries
            try:
                response = await server.post("/turns", json=body, headers={"Connection": "close"}, timeout=10)
            except httpx.HTTPError:
                response = None
            if response is not None and response.is_success:
                turn = response.json()
                self.acknowledged += [(turn["id"], job) for job in turn["jobs"]]
            await asyncio.sleep(PAUSE_S)

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Send turns during the block."""
        tasks = [asyncio.create_task(self._say(s, f"{self._name} {n}")) for n, s in enumerate(self._servers)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def more(self, turns: int) -> None:
        """Wait until this number of further turns is acknowledged."""
        goal, deadline = len(self.acknowledged) + turns, time.monotonic() + BACK_S
        while len(self.acknowledged) < goal:
            assert time.monotonic() < deadline, "no more turns are acknowledged"
            await asyncio.sleep(PAUSE_S)

    async def all_there_and_done(self) -> None:
        """Assert that every turn is stored, equal on both servers, and that its job ends."""
        for memory_id, _job in self.acknowledged:
            told = [await json_of(server.get(f"/memory/{memory_id}")) for server in self._servers]
            assert told[0] == told[1]
        deadline, waiting = time.monotonic() + BACK_S, [job for _memory, job in self.acknowledged]
        while waiting:
            states = [(job, (await json_of(self._servers[0].get(f"/jobs/{job}")))["state"]) for job in waiting]
            assert "dead" not in {state for _job, state in states}
            waiting = [job for job, state in states if state != "done"]
            assert time.monotonic() < deadline, f"{len(waiting)} jobs are not done"
            await asyncio.sleep(1)


@pytest.mark.parametrize("victim", ["postgres", "redis", "api-1", "api-2", "worker", "beat"])
async def test_whatever_is_killed_comes_back_and_nothing_acknowledged_is_lost(
    stack: Stack, servers: list[httpx.AsyncClient], victim: str
) -> None:
    talk = Talk(servers, victim)
    restarts = (await asyncio.to_thread(stack.inspect, victim))["RestartCount"]
    async with talk.going_on():
        await talk.more(20)
        await asyncio.to_thread(stack.crash, victim)
        await asyncio.to_thread(stack.wait_back, victim, restarts)
        await asyncio.to_thread(stack.wait_ready, BACK_S)
        await talk.more(20)
    await talk.all_there_and_done()


async def test_a_server_that_is_stopped_finishes_what_it_has_begun(stack: Stack, key: str) -> None:
    """SIGTERM comes when half of the body is sent; the other half follows."""
    lines = [f'{{"user_id": "jonas", "category": "tasks", "text": "Lamp {n} is on."}}\n'.encode() for n in range(4)]
    half, stopping = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"".join(lines[:2])
        half.set()
        await stopping.wait()
        yield b"".join(lines[2:])

    async def stop() -> None:
        await half.wait()
        await asyncio.sleep(1)  # so that the first half arrives
        container = (await asyncio.to_thread(stack.inspect, "api-2"))["Id"]
        await asyncio.to_thread(subprocess.run, ["docker", "kill", "--signal", "TERM", container], check=True)
        await asyncio.to_thread(wait_until, lambda: stack.verdicts()[1] != "ready", "api-2 to take no more requests")
        stopping.set()

    headers, ndjson = {"Authorization": f"Bearer {key}"}, {"Content-Type": "application/x-ndjson"}
    async with httpx.AsyncClient(headers=headers, timeout=30, trust_env=False) as client:
        answer, _ = await asyncio.gather(
            client.post(f"{stack.urls[1]}/memory/bulk", content=body(), headers=ndjson), stop()
        )
        assert (answer.status_code, answer.text.count('"action": "created"')) == (200, 4), answer.text
        await asyncio.to_thread(stack.run, "up", "-d")
        await asyncio.to_thread(stack.wait_ready, BACK_S)
        asked = {"agent": "planner", "query": "lamps", "categories": ["tasks"], "filters": {"user_id": "jonas"}}
        found = await json_of(client.post(f"{stack.urls[1]}/memory/query", json=asked))
    assert len(found["items"]) == 4


def test_worker_and_beat_end_by_themselves_when_they_are_asked_to(stack: Stack) -> None:
    stack.run("stop", "worker", "beat")
    assert [stack.inspect(service)["State"]["ExitCode"] for service in ("worker", "beat")] == [0, 0]
    stack.run("up", "-d")
