"""A standby that answers reads is killed again and again, then its primary: no read is stale and no write is lost.

`pytest -s` shows what happened.
"""

import asyncio
import itertools
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.bootstrap.tenancy import open_tenants
from app.config.settings import Settings
from tests.acceptance.serving import Server
from tests.api.calls import verdict
from tests.background import until
from tests.conftest import SECRET_KEY, Database
from tests.factories import body
from tests.standby import DATABASE, StreamingPair

CLIENTS = 4
STANDBY_KILLS = 5
PRIMARY_KILLS = 2
READS = 4
"""The further reads of each client, at least, between two faults."""

WAIT_S = 60
pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.xdist_group("replicas")]


@dataclass
class Drill:
    """Clients that write and read what any of them wrote. `acknowledged`: the texts of the writes, by id."""

    http: httpx.AsyncClient
    primary_is_away: bool = False
    stopped: bool = False
    acknowledged: dict[str, str] = field(default_factory=dict)
    newest: dict[int, str] = field(default_factory=dict)
    reads: Counter[int] = field(default_factory=Counter)
    stale: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    async def work(self, number: int) -> None:
        """Write, and read each write back in three ways, until told to stop."""
        user = f"u{number}"
        for step in itertools.count():
            if self.stopped:
                return
            text = f"Invoice {number * 100_000 + step} is settled."
            headers = {"Idempotency-Key": f"key {number} {step}"}
            sent = body(text, user_id=user)
            written = (await self._send("POST", "/memory", json=sent, headers=headers)).json()
            assert written["action"] == "created", written
            self.acknowledged[written["id"]] = text
            self.newest[number] = written["id"]
            await self._read_back(number, user, written["id"], text)

    async def _read_back(self, number: int, user: str, written: str, text: str) -> None:
        page = await self._send("GET", "/memory", params={"user_id": user, "limit": 1})
        if [memory["id"] for memory in page.json()["items"]] != [written]:
            self.stale.append(f"list of {user}")
        asked = {"agent": "supervisor", "query": text, "filters": {"user_id": user}, "min_relevance": 0.0}
        found = await self._send("POST", "/memory/query", json=asked)
        if written not in {item["id"] for item in found.json()["items"]}:
            self.stale.append(f"query of {user}")
        for other in (number, random.choice(list(self.newest))):  # no client's write may be missing for another one
            memory = await self._send("GET", f"/memory/{self.newest[other]}")
            if memory.status_code != 200:
                self.stale.append(f"get of u{other} by {user}")
        self.reads[number] += 4

    async def _send(self, method: str, path: str, **fields: Any) -> httpx.Response:
        """Send a request until it is answered; a refusal is allowed only while the primary is away."""
        while True:
            away = self.primary_is_away
            answer = await self.http.request(method, path, **fields)
            if answer.status_code != 503:
                assert answer.status_code in (200, 201, 404), answer.text
                return answer
            assert away or self.primary_is_away, (path, answer.text)
            self.refused[f"{method} {verdict(answer)[1]}"] += 1
            await asyncio.sleep(0.1)


def count_reads(metrics: str, place: str) -> int:
    """Return the number of reads that the replica or the primary answered."""
    found = re.search(rf'^mnema_reads_total{{place="{place}"}} (\d+)', metrics, re.M)
    return int(found[1]) if found else 0


class Faults:
    """The faults of the drill, each with reads before, during and after it."""

    def __init__(self, pair: StreamingPair, drill: Drill, tasks: list["asyncio.Task[None]"]) -> None:
        self._pair = pair
        self._drill = drill
        self._tasks = tasks

    async def kill_standby(self) -> None:
        """Kill the standby that answers reads, and start it again once the primary answers them."""
        await self.reads_at("replica")
        self._pair.kill_standby()
        await self.reads_at("primary")
        await self._read_more()
        await asyncio.to_thread(self._pair.start_standby)
        took = await self.reads_at("replica")
        print(f"standby killed: it answered reads again {took:.1f} s after its start")

    async def kill_primary(self) -> None:
        """Kill the primary for a second."""
        await self.reads_at("replica")
        self._drill.primary_is_away = True
        self._pair.kill_primary()
        await asyncio.sleep(1)
        await asyncio.to_thread(self._pair.start_primary)
        took = await self._read_more()
        self._drill.primary_is_away = False
        print(f"primary killed: all clients went on {took:.1f} s after its start")
        await self.reads_at("replica")

    async def reads_at(self, place: str) -> float:
        """Wait until the replica or the primary has answered more reads; return the seconds."""
        before = await self._count(place)

        async def answered() -> bool:
            return self._failed() or await self._count(place) >= before + CLIENTS

        return await until(answered, f"reads at the {place}", WAIT_S)

    async def _count(self, place: str) -> int:
        return count_reads((await self._drill.http.get("/metrics")).text, place)

    async def _read_more(self) -> float:
        """Wait until each client has read more; return the seconds."""
        before = dict(self._drill.reads)

        async def read() -> bool:
            return self._failed() or all(
                self._drill.reads[number] >= before.get(number, 0) + READS for number in range(CLIENTS)
            )

        return await until(read, "more reads of each client", WAIT_S)

    def _failed(self) -> bool:
        return any(task.done() for task in self._tasks)


@asynccontextmanager
async def reading_server(pair: StreamingPair, home: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Run a real server that writes on the primary and reads on the standby; yield a client of a new tenant."""
    url = pair.app_url(pair.source)
    settings = Settings(database_url=SecretStr(url), secret_key=SecretStr(SECRET_KEY), home=home)
    async with open_tenants(settings) as tenants:
        tenant = await tenants.create_tenant(f"killed replicas {random.random()}")
        _key, plain = await tenants.create_key(tenant.id, "drill", ["admin"])
    superuser = pair.source.database_url(DATABASE)
    server = Server(
        Database(DATABASE, superuser, superuser, url, url),
        home,
        env={"MNEMA_READ_DATABASE_URL": pair.app_url(pair.copy)},
    )
    try:
        await server.start()
        async with httpx.AsyncClient(
            base_url=server.url, headers={"Authorization": f"Bearer {plain}"}, timeout=30
        ) as http:
            yield http
        assert "Traceback" not in server.log
    finally:
        server.kill()


async def test_reads_stay_fresh_while_the_standby_and_then_the_primary_are_killed(
    pair: StreamingPair, tmp_path: Path
) -> None:
    async with reading_server(pair, tmp_path) as http:
        drill = Drill(http)
        tasks = [asyncio.create_task(drill.work(number)) for number in range(CLIENTS)]
        faults = Faults(pair, drill, tasks)
        try:
            for _kill in range(STANDBY_KILLS):
                await faults.kill_standby()
            assert not drill.refused, "without its standby the primary answers every read"
            for _kill in range(PRIMARY_KILLS):
                await faults.kill_primary()
        finally:
            drill.stopped = True
            await asyncio.gather(*tasks)
        assert drill.stale == []
        async with pair.on_primary() as sql:
            rows = await sql.fetch("SELECT id::text, text FROM memories WHERE text LIKE 'Invoice%'")
        assert sorted(row["text"] for row in rows) == sorted(drill.acknowledged.values())
        assert {row["id"]: row["text"] for row in rows} == drill.acknowledged
        print(f"{len(rows)} writes were acknowledged: none is lost or doubled; {drill.reads.total()} reads, none stale")
        print(f"refused while the primary was away: {dict(drill.refused)}")
