"""Clients that write, append under a version and chat while their tenant moves, and what must hold afterwards."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx

from tests.clusters.moving import ended_together
from tests.clusters.servers import ClusterServers
from tests.factories import body
from tests.own_postgres import connected

PATIENCE_S = 120
"""Seconds after which a client that is still refused has failed."""
RETRY_S = 0.1
MAYA = {"user_id": "maya"}
STORED = """
SELECT text FROM memories WHERE tenant_id = $1
AND (text LIKE $2 || ' client %' OR role = 'user' AND text LIKE '%' || $2 || ' chat %')
"""
ANSWERS = "SELECT count(*) FROM memories WHERE tenant_id = $1 AND role = 'assistant' AND thread_id LIKE $2 || '-%'"
GAPS = """
SELECT count(*) FROM (SELECT rev - lag(rev) OVER (PARTITION BY thread_id ORDER BY rev) AS step FROM change_log
                      WHERE tenant_id = $1) s WHERE step <> 1
"""


@dataclass
class Crowd:
    """Clients of one tenant. `longest_s`: the longest time until a request was taken, with all its repetitions.

    `written`, `appended` and `said`: the texts of writes, appended entries and chats that were acknowledged.
    `refusals`: the codes of answers that were repeated.
    """

    url: str
    key: str
    name: str = field(default_factory=lambda: uuid4().hex[:8])
    written: list[str] = field(default_factory=list)
    appended: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0
    stopped: bool = False

    async def write(self, client: int) -> None:
        """Store one memory after another until told to stop."""
        async with self._client() as http:
            for number in self._numbers():
                text = f"{self.name} client {client} says {number}"
                stored = await self._send(
                    http, "POST", "/memory", json=body(text, thread_id="crowd"), headers={"Idempotency-Key": text}
                )
                assert stored.status_code == 201, stored.text
                self.written.append(text)

    async def append(self, client: int) -> None:
        """Append to the state that the clients share, each time only to the version that was read."""
        path = f"/checkpoints/{self.name}"
        async with self._client() as http:
            for number in self._numbers():
                entry = f"{client}.{number}"
                while not await self._append_entry(http, path, entry):
                    pass
                self.appended.append(entry)

    async def _append_entry(self, http: httpx.AsyncClient, path: str, entry: str) -> bool:
        """Append an entry unless it is there, as after a lost answer; return False if another client was faster."""
        read = await self._send(http, "GET", path, params=MAYA)
        entries, version = (read.json()["entries"], read.headers["ETag"]) if read.is_success else ([], '"0"')
        if entry in entries:
            return True
        sent = {"entries": [*entries, entry]}
        put = await self._send(http, "PUT", path, params=MAYA, json=sent, headers={"If-Match": version})
        assert put.status_code in (200, 412), put.text
        return put.is_success

    async def chat(self, client: int) -> None:
        """Send one message of a chat after another, streamed in turn, until told to stop."""
        async with self._client() as http:
            for number in self._numbers():
                text = f"I keep note {self.name} chat {client} {number} in the blue box."
                sent: dict[str, Any] = {"model": "m", "user": "maya", "memory_id": f"{self.name}-{client}"}
                sent |= {"messages": [{"role": "user", "content": text}], "stream": number % 2 == 0}
                headers = {"Idempotency-Key": text}
                answer = await self._send(http, "POST", "/v1/chat/completions", json=sent, headers=headers)
                assert answer.status_code == 200, answer.text
                self.said.append(text)

    def _numbers(self) -> Iterator[int]:
        return itertools.takewhile(lambda _: not self.stopped, itertools.count())

    def _client(self) -> httpx.AsyncClient:
        """Return a client without idle connections: the server may end one just when the next request comes."""
        headers = {"Authorization": f"Bearer {self.key}", "Connection": "close"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60, trust_env=False)

    async def _send(self, http: httpx.AsyncClient, method: str, path: str, **fields: Any) -> httpx.Response:
        """Send a request until it is answered with anything but 503 or an interrupted stream."""
        began = time.monotonic()
        while True:
            assert time.monotonic() < began + PATIENCE_S, f"{method} {path} is refused for long: {self.refusals}"
            try:
                answer = await http.request(method, path, **fields)
            except httpx.TransportError as error:
                self.refusals[type(error).__name__] += 1
                await asyncio.sleep(RETRY_S)
                continue
            if answer.status_code != 503 and not _broke_off(answer):
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                return answer
            self.refusals[answer.json()["code"] if answer.status_code == 503 else "broken_stream"] += 1
            await asyncio.sleep(RETRY_S)


def _broke_off(answer: httpx.Response) -> bool:
    streams = answer.headers.get("content-type", "").startswith("text/event-stream")
    return streams and not answer.text.rstrip().endswith("data: [DONE]")


@asynccontextmanager
async def busy(url: str, key: str, clients: int = 8) -> AsyncIterator[Crowd]:
    """Let clients work while the block runs: half of them write, the others append and chat."""
    crowd = Crowd(url, key)
    kinds = (crowd.write, crowd.append, crowd.write, crowd.chat)
    tasks = [asyncio.create_task(kinds[client % 4](client)) for client in range(clients)]
    async with ended_together(tasks):
        yield crowd
        crowd.stopped = True


async def check_crowd(servers: ClusterServers, home: str, tenant_id: UUID, crowd: Crowd) -> None:
    """Assert that the tenant's home has each acknowledged change once, and revisions without gaps."""
    async with connected(servers.superusers[home]) as sql:
        stored = Counter(row["text"] for row in await sql.fetch(STORED, tenant_id, crowd.name))
        assert await sql.fetchval(ANSWERS, tenant_id, crowd.name) == len(crowd.said)
        assert await sql.fetchval(GAPS, tenant_id) == 0
        entries = await _read_entries(sql, tenant_id, crowd)
    expected = Counter([*crowd.written, *crowd.said])
    assert stored == expected, {"lost": expected - stored, "doubled": stored - expected}
    assert sorted(entries) == sorted(crowd.appended)


async def _read_entries(sql: asyncpg.Connection, tenant_id: UUID, crowd: Crowd) -> list[str]:
    found = await sql.fetch(
        "SELECT jsonb_array_elements_text(checkpoint_data->'entries') AS entry FROM supervisor_checkpoints"
        " WHERE tenant_id = $1 AND thread_id = $2",
        tenant_id,
        crowd.name,
    )
    return [row["entry"] for row in found]
