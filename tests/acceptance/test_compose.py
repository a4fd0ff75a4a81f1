"""The running stack of docker-compose.yml: both servers serve, killed ones come back, no acknowledged write is lost.

Set MNEMA_TEST_COMPOSE=1 to run it, on a machine with Docker and as root; without these it fails.
"""

import asyncio
import json
import os
import re
import secrets
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mnema_client import MnemaOperator, Unauthenticated

from tests.acceptance.compose import BACK_S, READY_S, SERVERS, Stack
from tests.acceptance.processes import wait_until
from tests.console.browser import NEEDS_BROWSER, chromium, open_page, sign_in

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.xdist_group("compose"),
    pytest.mark.skipif(not os.environ.get("MNEMA_TEST_COMPOSE"), reason="MNEMA_TEST_COMPOSE=1 asks for it"),
]
PAUSE_S = 0.05
OURS = (*SERVERS, "worker", "beat")
ADMINISTRATORS = ("POSTGRES_PASSWORD", "MNEMA_ADMIN_PASSWORD", "MNEMA_BACKUP_PASSWORD")
USER = 10001
"""The user of Mnema's containers."""
OPEN_PORTS = """
import socket, sys
for address in sys.argv[1:]:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), 3).close()
    except OSError:
        continue
    print(address)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The built stack, up and ready."""
    if missing := Stack.missing():
        pytest.fail(f"MNEMA_TEST_COMPOSE asks for Docker, but {missing}")
    made = Stack(tmp_path_factory.mktemp("compose"))
    made.run("build")
    try:
        made.run("up", "-d")
        made.wait_ready(READY_S)
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
    for service in (*OURS, "console", "postgres", "redis"):
        host = stack.inspect(service)["HostConfig"]
        assert (host["ReadonlyRootfs"], host["CapDrop"], host["Privileged"]) == (True, ["ALL"], False), service
        assert "no-new-privileges:true" in host["SecurityOpt"], service
        assert (host["Memory"] > 0, host["PidsLimit"] > 0) == (True, True), service
        written = stack.execute(service, "sh", "-c", "touch /usr/x 2>&1 || true")
        assert "Read-only file system" in written, service


def test_every_container_becomes_healthy(stack: Stack) -> None:
    for service in (*SERVERS, "worker", "console", "postgres", "redis"):
        wait_until(lambda service=service: stack.health(service) == "healthy", f"{service} to be healthy", BACK_S)
    assert stack.inspect("beat")["State"]["Running"]


@contextmanager
def signed_in(stack: Stack, key: str, first_page: str = "/") -> Iterator[httpx.Client]:
    """Sign a person in through the published port of the console, which opens `first_page`; yield the browser."""
    origin = {"Origin": stack.console_url.removesuffix("/console")}
    with httpx.Client(base_url=stack.console_url, headers=origin, timeout=30, trust_env=False) as browser:
        form = re.search('name="token" value="([^"]+)"', browser.get("/sign-in").text)
        assert form
        answer = browser.post("/sign-in", data={"token": form[1], "key": key})
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"] == f"/console{first_page}"
        yield browser


def test_people_sign_in_at_the_console_and_no_key_is_logged(stack: Stack, key: str) -> None:
    wait_until(stack.console_serves, "the console to serve", BACK_S)
    with signed_in(stack, key) as browser:
        home = browser.get("/")
    assert (home.status_code, "acme" in home.text, key in home.text) == (200, True, False)
    logs = stack.run("logs", "--no-color")
    assert "Uvicorn running on http://0.0.0.0:8080" in logs
    assert key not in logs


@NEEDS_BROWSER
async def test_a_browser_opens_the_console(stack: Stack, key: str) -> None:
    async with chromium() as browser:
        page = await open_page(browser)
        await sign_in(page, stack.console_url, key)
        await page.get_by_text("ready", exact=True).wait_for()


def test_the_console_has_no_secret_of_the_others_and_reaches_the_servers_only(stack: Stack) -> None:
    told = stack.execute("console", "env") + json.dumps(stack.inspect("console"))
    assert [name for name, secret in stack.secrets.items() if secret in told] == []
    assert stack.execute("console", "id", "-u").strip() == str(USER)
    places = [f"{name}:8000" for name in SERVERS] + ["postgres:5432", "redis:6379", "worker:8000"]
    for service, port in (("postgres", 5432), ("redis", 6379)):
        networks = stack.inspect(service)["NetworkSettings"]["Networks"]
        places += [f"{network['IPAddress']}:{port}" for network in networks.values()]
    probe = ("python", "-c", OPEN_PORTS, *places)
    assert stack.execute("console", *probe).split() == [f"{name}:8000" for name in SERVERS]
    assert len(stack.execute("worker", *probe).split()) > len(SERVERS), "the probe finds open ports"


def test_no_password_stands_in_a_command_line_or_a_log(stack: Stack) -> None:
    logs = stack.run("logs", "--no-color")
    assert "schema is current" in logs
    services = (*OURS, "console", "postgres", "redis")
    lines = "".join(str(stack.inspect(service)["Config"]["Cmd"]) for service in services)
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


@pytest.mark.parametrize("victim", ["postgres", "redis", "api-1", "api-2", "worker", "beat", "console"])
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


def crash_console(stack: Stack) -> None:
    """Kill the console and wait until it serves again."""
    restarts = stack.inspect("console")["RestartCount"]
    stack.crash("console")
    stack.wait_back("console", restarts)
    wait_until(stack.console_serves, "the console to serve", BACK_S)


def write_secret(file: Path) -> str:
    """Write a new secret that only the containers' user may read, and return it."""
    secret = secrets.token_hex(32)
    file.write_text(secret + "\n")
    file.chmod(0o400)
    os.chown(file, USER, -1)
    return secret


def test_sessions_of_the_console_outlive_a_restart_if_it_has_a_secret(stack: Stack, key: str, tmp_path: Path) -> None:
    with signed_in(stack, key) as browser:
        crash_console(stack)
        assert "/sign-in" in browser.get("/").headers["location"]
    secret = write_secret(tmp_path / "secret")
    mounted = {"console": {"volumes": [f"{tmp_path / 'secret'}:/run/secrets/mnema_console_secret:ro"]}}
    with stack.changed(mounted):
        wait_until(stack.console_serves, "the console to serve", BACK_S)
        with signed_in(stack, key) as browser:
            crash_console(stack)
            assert "acme" in browser.get("/").text
        told = stack.execute("console", "env") + json.dumps(stack.inspect("console"))
        assert secret not in told + stack.run("logs", "--no-color")


def test_an_operator_key_in_a_file_opens_tenants_and_keys(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "operator.key"
    secret = write_secret(file)
    tenants = f"{stack.urls[0]}/operator/tenants"
    closed = httpx.get(tenants, headers={"Authorization": f"Bearer {secret}"}, trust_env=False)
    assert (closed.status_code, closed.json()["code"]) == (404, "operator_disabled")
    with stack.changed(MNEMA_OPERATOR_KEY_FILE=file):
        for number, url in enumerate(stack.urls):
            with MnemaOperator(url, secret) as operator:
                assert operator.create_tenant(f"tenant {number}").name == f"tenant {number}"
            with MnemaOperator(url, secret[::-1]) as stranger, pytest.raises(Unauthenticated):
                stranger.create_tenant("stranger")
        wait_until(stack.console_serves, "the console to serve", BACK_S)
        with signed_in(stack, secret, "/keys") as browser:
            assert browser.get("/keys").status_code == 200
        for service in (*OURS, "console"):
            seen = stack.execute(service, "sh", "-c", "cat /run/secrets/operator_key 2>/dev/null || echo none").strip()
            assert (seen == secret) == (service in SERVERS), service
            assert secret not in stack.execute(service, "env") + json.dumps(stack.inspect(service)), service
        assert secret not in stack.run("logs", "--no-color")


def test_the_console_can_be_switched_off(stack: Stack) -> None:
    with stack.changed(MNEMA_CONSOLE=0):
        assert stack.run("ps", "-q", "console").strip() == ""
        assert not stack.console_serves()
    wait_until(stack.console_serves, "the console to serve", BACK_S)
