"""Clients that write and read through outages of the database, and the proof that each write is stored once."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx

from tests.background import until
from tests.factories import body

PATIENCE_S = 60
"""Seconds after which a client that is still refused has failed the drill."""


@dataclass(frozen=True)
class Acknowledged:
    """A write and its final answer."""

    path: str
    key: str
    sent: dict[str, Any]
    answer: dict[str, Any]

    @property
    def id(self) -> str:
        """The id of the stored memory."""
        return str(self.answer["id"])

    @property
    def text(self) -> str:
        """The text that was sent."""
        return str(self.sent["content" if self.path == "/turns" else "text"])


@dataclass
class Crowd:
    """Clients of one server that write with idempotency keys, and one that reads. They repeat what is refused."""

    url: str
    key: str
    size: int = 5
    done: list[list[Acknowledged]] = field(default_factory=list)
    refusals: "Counter[str]" = field(default_factory=Counter)
    reads: int = 0
    longest_s: float = 0

    @property
    def acknowledged(self) -> list[Acknowledged]:
        """The acknowledged writes of all clients."""
        return list(itertools.chain(*self.done))

    def client(self) -> httpx.AsyncClient:
        """Return a client of the server; its timeout ends a request that hangs."""
        return httpx.AsyncClient(base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=30)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Let the clients work until the block ends; each finishes its last write. Any other answer fails the block."""
        self._over = asyncio.Event()
        self.done = [[] for _ in range(self.size)]
        self._tasks = [asyncio.create_task(self._write(number)) for number in range(self.size)]
        self._tasks.append(asyncio.create_task(self._read()))
        try:
            yield
            self._over.set()
            await asyncio.gather(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def goes_on(self, number: int = 1) -> float:
        """Return the seconds until each client has written `number` more and one more read was answered."""
        wanted = [len(done) + number for done in self.done]
        reads = self.reads + 1

        async def went_on() -> bool:
            self.require_alive()
            return self.reads >= reads and all(
                len(done) >= count for done, count in zip(self.done, wanted, strict=True)
            )

        return await until(went_on, "more writes and reads", PATIENCE_S)

    def require_alive(self) -> None:
        """Raise the error of a client that has failed."""
        for task in self._tasks:
            if task.done() and not self._over.is_set():
                task.result()

    async def _write(self, client: int) -> None:
        async with self.client() as http:
            for step in itertools.count():
                if self._over.is_set():
                    return
                path, sent = _draft(client, step)
                key = f"client {client} step {step}"
                response = await self._answered(http, path, sent, {"Idempotency-Key": key})
                assert response.status_code == 201, response.text
                self.done[client].append(Acknowledged(path, key, sent, response.json()))

    async def _read(self) -> None:
        question = {"agent": "supervisor", "query": "Which invoices are settled?", "filters": {"user_id": "u0"}}
        async with self.client() as http:
            while not self._over.is_set():
                assert (await self._answered(http, "/memory/query", question, {})).status_code == 200
                listed = await self._refused_or_answered(http, "GET", "/memory", None, {})
                assert listed is None or listed.status_code == 200
                self.reads += 1
                await asyncio.sleep(0.05)

    async def _answered(
        self, http: httpx.AsyncClient, path: str, sent: dict[str, Any], headers: dict[str, str]
    ) -> httpx.Response:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if (response := await self._refused_or_answered(http, "POST", path, sent, headers)) is not None:
                    return response
                await asyncio.sleep(0.1)

    async def _refused_or_answered(
        self, http: httpx.AsyncClient, method: str, path: str, sent: dict[str, Any] | None, headers: dict[str, str]
    ) -> httpx.Response | None:
        """Return the answer, None for a 503. The server lives, so a connection that it loses is an error."""
        began = time.monotonic()
        try:
            response = await http.request(method, path, json=sent, headers=headers)
        finally:
            self.longest_s = max(self.longest_s, time.monotonic() - began)
        if response.status_code < 300:
            return response
        assert response.status_code == 503, f"{method} {path}: {response.status_code} {response.text}"
        assert response.headers["Retry-After"]
        self.refusals[f"503 {response.json()['code']}"] += 1
        return None


def _draft(client: int, step: int) -> tuple[str, dict[str, Any]]:
    number, user = client * 100_000 + step, f"u{client}"
    if step % 2:
        turn = {"user_id": user, "thread_id": f"thread {client}", "role": "user"}
        return "/turns", turn | {"content": f"Turn {number}."}
    return "/memory", body(f"Invoice {number} is settled.", user_id=user, thread_id=f"thread {client}")


WRONG = """
    SELECT 'not one ADD in its history' AS what, m.id::text FROM memories m
        WHERE (SELECT count(*) FROM history h WHERE h.memory_id = m.id::text AND h.event = 'ADD') <> 1
    UNION ALL SELECT 'not told once', m.id::text FROM memories m
        WHERE (SELECT count(*) FROM change_log c WHERE c.memory_id = m.id::text AND c.event = 'created') <> 1
    UNION ALL SELECT 'not one key', m.id::text FROM memories m
        WHERE (SELECT count(*) FROM idempotency_keys k WHERE k.response->>'id' = m.id::text) <> 1
    UNION ALL SELECT 'no vector', m.id::text FROM memories m
        WHERE NOT EXISTS (SELECT FROM vec_minilm_l6_v2 v WHERE v.memory_id = m.id)
    UNION ALL SELECT 'not one job', m.id::text FROM memories m WHERE m.type = 'turn'
        AND (SELECT count(*) FROM jobs j WHERE j.kind = 'after_turn' AND j.payload->>'memory_id' = m.id::text) <> 1
    UNION ALL SELECT 'an empty answer', key FROM idempotency_keys WHERE response = '{}'
"""


async def check_stored_once(superuser: str, crowd: Crowd, others: Sequence[str] = ()) -> None:
    """Assert that the memories are the acknowledged writes and `others`, and that each write is complete.

    Send some writes again: the same key gets the same answer.
    """
    sql = await asyncpg.connect(superuser)
    try:
        rows = {str(row["id"]): row["text"] for row in await sql.fetch("SELECT id, text FROM memories")}
        wrong = [tuple(row) for row in await sql.fetch(WRONG) if row["id"] not in others]
    finally:
        await sql.close()
    done = crowd.acknowledged
    assert len({ack.id for ack in done}) == len(done), "no two writes are one memory"
    lost = [ack for ack in done if rows.get(ack.id) != ack.text]
    doubled = set(rows) - {ack.id for ack in done} - set(others)
    print(f"{len(done)} acknowledged writes, {crowd.reads} reads, {len(lost)} lost, {len(doubled)} unknown or doubled")
    print(f"refusals: {dict(crowd.refusals)}; the longest request took {crowd.longest_s:.1f} s")
    assert (lost, doubled, wrong) == ([], set(), [])
    async with crowd.client() as http:
        for ack in [writes[-1] for writes in crowd.done]:
            again = await http.post(ack.path, json=ack.sent, headers={"Idempotency-Key": ack.key})
            assert again.json() == ack.answer
