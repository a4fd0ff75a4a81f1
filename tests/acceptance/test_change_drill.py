"""Writers, subscribers and a webhook, while server, worker and PostgreSQL are killed in turn: no change is lost.

`pytest -s` shows what happened.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from mnema_client import AsyncMnema, MnemaError, Retry
from standardwebhooks.webhooks import Webhook

from tests.acceptance.serving import Server
from tests.background import Background, background, kill_group, until
from tests.own_postgres import OwnPostgres, connected, own_postgres
from tests.receivers import HANGS, RESETS, Receiver, open_receiver
from tests.redis_server import RedisServer

WRITERS = 4
ROUNDS = 2
PAUSE_S = 4.0
WAIT_S = 240
HISTORY = "SELECT event, memory_id FROM history ORDER BY stamp, id"
pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.xdist_group("workers")]


class Subscribers:
    """Three subscribers. `heard`: the id, the event and the memory of each change that each was told."""

    def __init__(self, url: str, key: str) -> None:
        self._client = AsyncMnema(url, key, retry=Retry(patience_s=WAIT_S))
        self.heard: dict[str, list[tuple[str, str, str]]] = {"all": [], "one": [], "pages": []}

    async def follow(self, name: str, user_id: str | None) -> None:
        """Follow the stream from the first change."""
        after = "start"
        while True:
            try:
                async for change in self._client.changes(user_id, after=after):
                    self.heard[name].append((change.id, change.event, change.memory_id))
                    after = change.id
            except MnemaError as error:
                print(f"{name}: {error}")
                await asyncio.sleep(0.5)

    async def read_pages(self) -> None:
        """Read page after page, a few records at a time."""
        after = "start"
        while True:
            try:
                page = await self._client.changes_page(after=after, limit=7)
                self.heard["pages"] += [(change.id, change.event, change.memory_id) for change in page.events]
                after = page.end.next_cursor
                await asyncio.sleep(0 if page.end.more else 0.2)
            except MnemaError as error:
                print(f"pages: {error}")
                await asyncio.sleep(0.5)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


async def write(url: str, key: str, number: int, stop: asyncio.Event) -> None:
    """Write, edit and delete memories of one user, and go on after each refusal."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
        for step in itertools.count():
            if stop.is_set():
                return
            sent = {
                "user_id": f"u{number}",
                "category": "tasks",
                "text": f"Bill {number * 9999 + step} is paid.",
            }
            try:
                written = (await http.post("/memory", json=sent)).json()
                if step % 3 == 0:
                    await http.patch(f"/memory/{written['id']}", json={"importance": 5})
                if step % 5 == 0:
                    await http.delete(f"/memory/{written['id']}")
            except (httpx.HTTPError, KeyError, ValueError):
                await asyncio.sleep(0.2)


async def kill_in_turn(server: Server, workers: Background, postgres: OwnPostgres) -> None:
    """Kill the server, the worker and PostgreSQL with SIGKILL, one after the other."""
    worker = workers.worker()
    for _round in range(ROUNDS):
        await asyncio.sleep(PAUSE_S)
        server.kill()
        await server.start()
        await asyncio.sleep(PAUSE_S)
        kill_group(worker)
        worker = workers.worker()
        await asyncio.sleep(PAUSE_S)
        postgres.kill()
        await asyncio.to_thread(postgres.restart)
    await asyncio.sleep(PAUSE_S)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that first fails in every way."""
    async with open_receiver(500, RESETS, 302, HANGS, 503, 204) as made:
        yield made


async def test_subscribers_and_a_webhook_hear_every_change(
    tmp_path: Path, redis: RedisServer, receiver: Receiver
) -> None:
    with own_postgres() as postgres:
        database = await postgres.prepare()
        key = await postgres.create_key("admin")
        guard = {"MNEMA_WEBHOOK_PRIVATE": "true", "MNEMA_WEBHOOK_TIMEOUT_S": "2"}
        (tmp_path / "server").mkdir()
        (tmp_path / "worker").mkdir()
        server = Server(database, tmp_path / "server", env=guard)
        with background(tmp_path / "worker", database.app, redis.url, **guard) as workers:
            try:
                await server.start()
                await _drill(server, workers, postgres, key, receiver)
            finally:
                server.kill()


async def _drill(server: Server, workers: Background, postgres: OwnPostgres, key: str, receiver: Receiver) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
        made = (await http.post("/webhooks", json={"url": receiver.url})).json()
    subscribers, stop = Subscribers(server.url, key), asyncio.Event()
    listening = [
        asyncio.create_task(subscribers.follow("all", None)),
        asyncio.create_task(subscribers.follow("one", "u1")),
        asyncio.create_task(subscribers.read_pages()),
    ]
    writing = [asyncio.create_task(write(server.url, key, number, stop)) for number in range(WRITERS)]
    await kill_in_turn(server, workers, postgres)
    stop.set()
    await asyncio.gather(*writing)
    async with connected(postgres.superuser) as sql:
        kept = [(row["event"], row["memory_id"]) for row in await sql.fetch(HISTORY)]
        of_one = "SELECT memory_id FROM history WHERE meta#>>'{after,user_id}' = 'u1' ORDER BY stamp, id"
        own = {row["memory_id"] for row in await sql.fetch(of_one)}
        heard = subscribers.heard

        async def have_heard() -> bool:
            return len(heard["all"]) >= len(kept) and len(heard["pages"]) >= len(kept)

        async def have_delivered() -> bool:
            for task in listening:
                assert not task.done(), task
            await sql.execute("UPDATE webhooks SET due_at = least(due_at, now() + interval '2 s')")  # of killed workers
            await sql.execute("UPDATE webhook_deliveries SET next_attempt = now() WHERE state = 'pending'")
            await asyncio.sleep(0.5)
            return len({message.headers["webhook-id"] for message in receiver.taken}) >= len(kept)

        await until(have_heard, "the subscribers", WAIT_S)
        await until(have_delivered, "the webhook", WAIT_S)
    for task in listening:
        task.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    await subscribers.close()
    print(f"{len(kept)} changes, {len(receiver.messages)} messages, {len(receiver.taken)} taken")
    assert len(kept) > 50
    for name in ("all", "pages"):
        assert [(event, memory) for _id, event, memory in heard[name]] == kept, name
        assert len({change for change, *_ in heard[name]}) == len(kept)
    told = [pair for pair in kept if pair[1] in own]
    assert [(event, memory) for _id, event, memory in heard["one"]] == told
    delivered = {}
    for message in receiver.taken:
        Webhook(made["secret"]).verify(message.body, message.headers)
        data = json.loads(message.body)["data"]
        delivered[message.headers["webhook-id"]] = (data["event"], data["memory_id"])
    assert sorted(delivered.values()) == sorted(kept)
