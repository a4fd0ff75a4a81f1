"""`mnema serve --workers N` as processes: reloads without a failed request, deaths, metrics, and the end."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.processes import REPOSITORY, alive, listening
from tests.acceptance.serving import Server
from tests.background import until
from tests.conftest import Database
from tests.factories import Caller, body

pytestmark = pytest.mark.acceptance
CLIENTS = 4
PAUSE_S = 0.05
"""A client's pause after each turn, so that new workers get some of the CPU."""


@pytest.fixture
async def server(database: Database, tmp_path: Path) -> AsyncIterator[Server]:
    """A ready server of two workers with a configuration of its own."""
    shutil.copytree(REPOSITORY / "config", tmp_path / "config")
    env = {"MNEMA_CONFIG_DIR": str(tmp_path / "config"), "TMPDIR": str(tmp_path)}
    made = Server(database, tmp_path, env=env, options=("--workers", "2"))
    await made.start()
    await until(said(made, "workers_serving"), "two workers")
    yield made
    made.kill()


def said(server: Server, event: str, times: int = 1) -> Callable[[], Awaitable[bool]]:
    """Return a check that the log has an event at least so many times."""

    async def check() -> bool:
        assert server.process.poll() is None, server.log
        return server.log.count(f'"event":"{event}"') >= times

    return check


def workers(server: Server) -> set[int]:
    """Return the process ids of the living workers."""
    listed = subprocess.run(["ps", "axo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = (map(int, line.split()) for line in listed.splitlines())
    return {pid for pid, parent in pairs if parent == server.process.pid and alive(pid)}


async def metrics(client: httpx.AsyncClient) -> dict[tuple[str, str], float]:
    """Return the values of /metrics, summed by their names and workers."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families((await client.get("/metrics")).raise_for_status().text):
        for sample in family.samples:
            place = sample.name, sample.labels.get("worker", "")
            found[place] = found.get(place, 0) + sample.value
    return found


class Load:
    """Clients that write and read on kept-alive connections, and retry nothing. The first failure fails the test."""

    def __init__(self, server: Server, caller: Caller) -> None:
        self._server = server
        self._caller = caller
        self._over = asyncio.Event()
        self.written: set[str] = set()

    async def __aenter__(self) -> "Load":
        self._clients = [asyncio.create_task(self._work(number)) for number in range(CLIENTS)]
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._over.set()
        await asyncio.gather(*self._clients)

    async def goes_on(self) -> None:
        """Return when the clients have written some more."""
        enough = len(self.written) + 3 * CLIENTS

        async def wrote() -> bool:
            assert not any(client.done() for client in self._clients), await asyncio.gather(*self._clients)
            return len(self.written) >= enough

        await until(wrote, "more writes")

    async def _work(self, number: int) -> None:
        async with self._caller.client(self._server.url) as client:
            turn = 0
            while not self._over.is_set():
                turn += 1
                text = f"Client {number} keeps the note {turn * 7919} in drawer {turn}."
                answer = await client.post("/memory", json=body(text, user_id=f"user{number}"))
                assert answer.status_code == 201, answer.text
                self.written.add(answer.json()["id"])
                seen = await client.get("/memory", params={"user_id": f"user{number}", "limit": 1})
                assert seen.json()["items"], seen.text
                await asyncio.sleep(PAUSE_S)


@pytest.mark.long
async def test_reloads_lose_no_request_and_the_end_is_clean(server: Server, caller: Caller, tmp_path: Path) -> None:
    policies = tmp_path / "config" / "policies.yaml"
    right, first = policies.read_text(), workers(server)
    async with Load(server, caller) as load:
        await load.goes_on()
        policies.write_text("nonsense: true\n")
        server.process.send_signal(signal.SIGHUP)
        await until(said(server, "reload_failed"), "the refusal of a wrong configuration")
        await load.goes_on()
        assert first <= workers(server)
        policies.write_text(right)
        server.process.send_signal(signal.SIGHUP)
        await until(said(server, "reload_done"), "the reload")
        await load.goes_on()
    second = workers(server) - first
    assert len(second) == 2

    async def alone() -> bool:
        return workers(server) == second

    await until(alone, "the end of the former workers")
    async with caller.client(server.url) as client:
        kept = [await client.get(f"/memory/{memory_id}") for memory_id in load.written]
    assert {answer.status_code for answer in kept} == {200}
    server.process.terminate()
    assert await asyncio.to_thread(server.process.wait, 60) == 0, server.log
    assert not any(map(alive, first | second))
    assert "Traceback" not in server.log
    assert not any(name.startswith("mnema-serve-") for name in os.listdir(tmp_path))


@pytest.mark.long
async def test_a_dead_worker_comes_back_and_a_dead_supervisor_ends_all(server: Server, caller: Caller) -> None:
    async with caller.client(server.url) as client:
        for _ in range(6):
            assert (await client.get("/memory")).status_code == 200
        found = await metrics(client)
        assert [found["mnema_worker_up", worker] for worker in "12"] == [1, 1]
        served = [found.get(("mnema_http_requests_total", worker), 0) for worker in "12"]
        assert sum(served) >= 6  # one connection: a worker may have none of them
        assert all(found["process_resident_memory_bytes", worker] > 0 for worker in "12")
        assert ("mnema_jobs_oldest_due_seconds", "") in found
    first = workers(server)
    for times in (1, 2):  # the second time it is too early, so the restart waits
        os.kill(killed := min(workers(server)), signal.SIGKILL)
        await until(said(server, "worker_ended", times), "the note of the death")
        await until(said(server, "serving", 2 + times), "another worker")
        assert killed not in workers(server)
    restarted = workers(server)
    assert len(restarted) == 2
    assert '"restart_s":0.0' in server.log
    async with caller.client(server.url) as client:
        assert (await client.get("/memory")).status_code == 200
    server.kill()

    async def gone() -> bool:
        return not any(map(alive, first | restarted))

    await until(gone, "the end of the workers")
    assert not listening(server.port)
