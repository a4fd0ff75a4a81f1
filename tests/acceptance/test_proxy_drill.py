"""Four servers behind HAProxy, killed in turn while clients write and read: one retry of a client cures every failure.

It takes minutes and much CPU, so it runs only if MNEMA_TEST_HAPROXY names the program. MNEMA_PROXY_KILLS sets how often
a server is killed, MNEMA_PROXY_PAUSE_S the seconds before each kill.
"""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import asyncpg
import httpx
import pytest
from mnema_client import AsyncMnema, Retry

from tests.acceptance.processes import DEADLINE_S, REPOSITORY, free_port
from tests.acceptance.serving import Server
from tests.background import until
from tests.conftest import Database
from tests.factories import Caller

HAPROXY = os.environ.get("MNEMA_TEST_HAPROXY")
KILLS = int(os.environ.get("MNEMA_PROXY_KILLS", "4"))
PAUSE_S = float(os.environ.get("MNEMA_PROXY_PAUSE_S", "10"))
CLIENTS, SERVERS = 4, 4
REST_S = 0.05
"""A client's pause after each turn, so that a server that starts gets some of the CPU."""
ONE_RETRY = Retry(attempts=2)
pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(HAPROXY is None, reason="a drill of minutes; MNEMA_TEST_HAPROXY names no haproxy"),
]


@pytest.fixture
def servers(database: Database, tmp_path: Path) -> Iterator[list[Server]]:
    """Four servers that do not run yet."""
    made = []
    for number in range(SERVERS):
        (home := tmp_path / f"server{number}").mkdir()
        made.append(Server(database, home))
    yield made
    for server in made:
        server.kill()


@pytest.fixture
def proxy(servers: list[Server], tmp_path: Path) -> Iterator[str]:
    """The URL of a HAProxy with the file of docs/operations.md, before the servers."""
    page = (REPOSITORY / "docs/operations.md").read_text(encoding="utf-8")
    lines, port = page.partition("```haproxy\n")[2].partition("```")[0], free_port()
    for number, server in enumerate(servers, start=1):
        lines = lines.replace(f"127.0.0.1:800{number}", f"127.0.0.1:{server.port}")
    (tmp_path / "haproxy.cfg").write_text(re.sub(r"bind 127.0.0.1:\d+", f"bind 127.0.0.1:{port}", lines))
    with (tmp_path / "haproxy.log").open("wb") as log:
        assert HAPROXY is not None
        process = subprocess.Popen([HAPROXY, "-db", "-f", tmp_path / "haproxy.cfg"], stdout=log, stderr=log)
    yield f"http://127.0.0.1:{port}"
    process.send_signal(signal.SIGKILL)
    process.wait()


class Client:
    """A client that writes, reads what it wrote, and asks; any failure that one retry does not cure fails the test."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.written: dict[str, str] = {}

    async def work(self, url: str, caller: Caller, stop: asyncio.Event) -> None:
        user = f"user{self._number}"
        async with AsyncMnema(url, caller.key, retry=ONE_RETRY) as memory:
            while not stop.is_set():
                text = f"Invoice {self._number * 100_000 + len(self.written)} is settled."
                written = await memory.remember(text, user_id=user, category="preferences")
                assert str(written.id) not in self.written
                self.written[str(written.id)] = text
                assert (await memory.get(written.id)).text == text
                answer = await memory.query(text, agent="supervisor", filters={"user_id": user}, min_relevance=0)
                assert answer.items
                await asyncio.sleep(REST_S)


async def more(clients: Sequence[Client], tasks: Sequence["asyncio.Task[None]"]) -> None:
    """Return when each client has written three more; fail if one has failed."""
    wanted = [len(client.written) + 3 for client in clients]

    async def wrote() -> bool:
        if failed := [task for task in tasks if task.done()]:
            await asyncio.gather(*failed)
        return all(len(client.written) >= count for client, count in zip(clients, wanted, strict=True))

    await until(wrote, "more writes")


async def test_servers_killed_behind_a_proxy_fail_no_call_that_one_retry_does_not_cure(
    servers: list[Server], proxy: str, caller: Caller, database: Database
) -> None:
    await asyncio.gather(*(server.start() for server in servers))
    async with httpx.AsyncClient(base_url=proxy) as http:

        async def serves() -> bool:
            return (await http.get("/ready")).status_code == 200

        await until(serves, "the proxy")
    clients, stop = [Client(number) for number in range(CLIENTS)], asyncio.Event()
    tasks = [asyncio.create_task(client.work(proxy, caller, stop)) for client in clients]
    for number in range(KILLS):
        await asyncio.sleep(PAUSE_S)
        await more(clients, tasks)
        victim = servers[number % SERVERS]
        victim.kill()
        await more(clients, tasks)
        await victim.start()
    await more(clients, tasks)
    stop.set()
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*tasks)
    connection = await asyncpg.connect(database.superuser)
    stored = {str(row["id"]): row["text"] for row in await connection.fetch("SELECT id, text FROM memories")}
    await connection.close()
    written = {memory_id: text for client in clients for memory_id, text in client.written.items()}
    assert stored == written
