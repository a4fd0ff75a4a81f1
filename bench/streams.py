"""The cost of the stream of changes and of webhooks, `mnema bench streams`.

One server in its own process has a tenant of made-up memories. Idle subscribers are opened and counted. Then writes
follow each other with pauses, and each subscriber notes when it hears of them. One reader reads all changes, as pages
and as a stream. At the end one worker's use-case delivers changes to many webhooks of a receiver on this machine.
"""

import asyncio
import contextlib
import json
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles
from typing import Any, Final
from unittest import mock
from urllib.parse import urlencode

import asyncpg
import httpx

from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.webhooks.webhook import MAX_WEBHOOKS, WebhookChoice
from bench import cpu_time, workload
from bench.http_clients import HOST
from bench.http_runs import running_bench_server
from bench.server_workers import read_rollup
from bench.throwaway import Site, open_site

IDLE_S: Final = 10.0
"""Seconds in which nothing changes and the CPU is measured."""
PAUSE_S: Final = 0.6
"""The longest pause before a write: longer than the server takes between two looks for changes."""
WAIT_S: Final = 120.0
HALF: Final = json.dumps({"importance": {"gte": 4}})
PAGES: Final = {
    "pages": {},
    "pages with where (two fifths match)": {"where": HALF},
    "pages with memories": {"memory": "true"},
}
EVENTS: Final = "text/event-stream"
_CONNECTIONS: Final = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'mnema_app'"
_BODY: Final = {"user_id": "user-0", "category": workload.CATEGORIES[0], "type": "episodic"}


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run: memories, idle subscribers, writes of which they hear, webhooks and their changes."""

    rows: int = 10_000
    subscribers: int = 200
    writes: int = 60
    webhooks: int = MAX_WEBHOOKS
    changes: int = 40


@dataclass(slots=True)
class Report:
    """The figures by name, in the order of the table."""

    plan: Plan
    figures: dict[str, str] = field(default_factory=dict)
    profile: None = None

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield names and figures."""
        yield from self.figures.items()

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Server:
    """The measured server: its process, its address and the installation behind it."""

    site: Site
    pid: int
    port: int

    def cpu(self) -> tuple[float | None, float | None]:
        """Return the CPU seconds of the server and of PostgreSQL."""
        return cpu_time.family_seconds(self.pid), _postgres_seconds(self.site)

    def client(self) -> httpx.AsyncClient:
        """Return a client with the tenant's key."""
        headers = {"Authorization": f"Bearer {self.site.key}"}
        return httpx.AsyncClient(base_url=f"http://{HOST}:{self.port}", headers=headers, timeout=WAIT_S)


class _Subscriber:
    """A raw connection that follows the stream. `heard`: when it heard of each memory."""

    def __init__(self) -> None:
        self.heard: dict[str, float] = {}
        self.ready = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, server: _Server, after: str | None = None) -> None:
        """Connect and wait for the first event."""
        reader, self._writer = await asyncio.open_connection(HOST, server.port)
        query = "?" + urlencode({"after": after}) if after else ""
        lines = (f"GET /changes{query} HTTP/1.1", f"Host: {HOST}", f"Accept: {EVENTS}")
        self._writer.write("\r\n".join([*lines, f"Authorization: Bearer {server.site.key}", "", ""]).encode())
        self._reading = asyncio.create_task(self._read(reader))
        await asyncio.wait_for(self.ready.wait(), WAIT_S)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        async for line in reader:
            if line.startswith(b"event:"):
                self.ready.set()
            elif line.startswith(b"data:") and b'"memory_id"' in line:
                self.heard[json.loads(line[5:])["memory_id"]] = time.perf_counter()

    async def close(self) -> None:
        """Close the connection."""
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Run the whole benchmark and remove everything afterwards. `say` gets messages about its progress.

    Raise RuntimeError if an event or a message does not come.
    """
    report = Report(plan)
    say(f"loading {plan.rows} memories into a throw-away PostgreSQL")
    with mock.patch.dict(os.environ, MNEMA_WEBHOOK_PRIVATE="true"), open_site(plan.rows) as site:
        with running_bench_server(site) as (process, port):
            asyncio.run(_measure_streams(_Server(site, process.pid, port), report, say))
        say(f"{plan.webhooks} webhooks, {plan.changes} changes")
        asyncio.run(_measure_webhooks(site, report))
    return report


async def _measure_streams(server: _Server, report: Report, say: Callable[[str], None]) -> None:
    plan = report.plan
    async with server.client() as http, _subscribers(server, 1) as [first]:  # the first one loads what all need
        say(f"idle for {IDLE_S:g} s, then with {plan.subscribers} subscribers")
        before, rss = await _look(server), read_rollup(server.pid)[0]
        async with _subscribers(server, plan.subscribers - 1) as others:
            after, each = await _look(server), (read_rollup(server.pid)[0] - rss) * 1024 / max(1, len(others))
            report.figures["memory of an idle subscriber"] = f"{each:.0f} KiB"
            report.figures["database connections with 1 subscriber"] = f"{before.connections}"
            report.figures[f"database connections with {plan.subscribers}"] = f"{after.connections}"
            report.figures["CPU of the server, idle with 1 subscriber"] = f"{before.share:.2f} %"
            report.figures[f"CPU of the server, idle with {plan.subscribers}"] = f"{after.share:.2f} %"
            say(f"{plan.writes} writes with {plan.subscribers} subscribers, then with one")
            await _measure_delay(server, http, report, [first, *others])
        await _measure_delay(server, http, report, [first])
        for name, parameters in PAGES.items():
            say(name)
            report.figures[name] = await _measure_rate(server, report, _read_pages(http, parameters))
        say("a stream from the first change")
        report.figures["a stream"] = await _measure_rate(server, report, _read_stream(server, plan.rows))


@contextlib.asynccontextmanager
async def _subscribers(server: _Server, number: int) -> AsyncIterator[list[_Subscriber]]:
    found = [_Subscriber() for _ in range(number)]
    try:
        for subscriber in found:
            await subscriber.open(server)
        yield found
    finally:
        await asyncio.gather(*(subscriber.close() for subscriber in found))


@dataclass(frozen=True, slots=True)
class _Idle:
    """The use of an idle server: database connections, and the share of a core in per cent."""

    connections: int
    share: float


async def _look(server: _Server) -> _Idle:
    """Return the use of the server in IDLE_S."""
    sql = await asyncpg.connect(server.site.superuser_url)
    try:
        begun = server.cpu()[0] or 0.0
        await asyncio.sleep(IDLE_S)
        share = ((server.cpu()[0] or 0.0) - begun) / IDLE_S * 100
        return _Idle(await sql.fetchval(_CONNECTIONS), share)
    finally:
        await sql.close()


async def _measure_delay(
    server: _Server, http: httpx.AsyncClient, report: Report, subscribers: list[_Subscriber]
) -> None:
    """Write, and note how long after the answer the last subscriber hears of it, and the CPU of write and reads."""
    chance, before = random.Random(len(subscribers)), server.cpu()
    answered: dict[str, float] = {}
    for number in range(report.plan.writes):
        await asyncio.sleep(chance.uniform(0, PAUSE_S))
        text = f"{workload.make_note(number).text} {len(subscribers)} hear of it."
        response = await http.post("/memory", json=_BODY | {"text": text})
        response.raise_for_status()
        answered[response.json()["id"]] = time.perf_counter()
    await _wait_until(lambda: all(answered.keys() <= each.heard.keys() for each in subscribers))
    last = [max(each.heard[one] for each in subscribers) - at for one, at in answered.items()]
    name = f"from the answer of a write to the last of {len(subscribers)}, p50; p95; most"
    figures = (median(last), quantiles(last, n=20, method="inclusive")[-1], max(last))
    report.figures[name] = "; ".join(f"{seconds * 1000:.0f}" for seconds in figures) + " ms"
    pairs = zip(before, server.cpu(), strict=True)
    cpu = " + ".join(f"{cpu_time.milliseconds_each(*pair, len(answered)) or 0:.0f}" for pair in pairs)
    report.figures[f"CPU of a write of which {len(subscribers)} hear"] = f"{cpu} ms"


async def _measure_rate(server: _Server, report: Report, reading: Coroutine[Any, Any, int]) -> str:
    """Return how many events a second a reader gets, and the CPU of server and PostgreSQL for a thousand."""
    before, started = server.cpu(), time.perf_counter()
    events = await reading
    seconds = time.perf_counter() - started
    pairs = zip(before, server.cpu(), strict=True)
    cpu = " + ".join(f"{(cpu_time.milliseconds_each(*pair, events) or 0) * 1000:.0f}" for pair in pairs)
    return f"{events / seconds:,.0f} a second, {cpu} ms of CPU for 1,000"


async def _read_pages(http: httpx.AsyncClient, parameters: dict[str, str]) -> int:
    """Read all changes page by page; return the number of events."""
    cursor, more, events = "start", True, 0
    while more:
        page = await http.get("/changes", params=parameters | {"after": cursor})
        page.raise_for_status()
        *told, end = page.text.splitlines()
        events += len(told)
        cursor, more = json.loads(end)["next_cursor"], json.loads(end)["more"]
    return events


async def _read_stream(server: _Server, events: int) -> int:
    """Read a stream from the first change until so many memories were told of; return their number."""
    subscriber = _Subscriber()
    await subscriber.open(server, "start")
    try:
        await _wait_until(lambda: len(subscriber.heard) >= events)
        return len(subscriber.heard)
    finally:
        await subscriber.close()


async def _measure_webhooks(site: Site, report: Report) -> None:
    """Serve webhooks that have nothing to send, then those that have, in this thread; the receiver has its own."""
    plan = report.plan
    with _receiver() as receiver:
        async with site.open_application() as (app, principal):
            for _ in range(plan.webhooks):
                await app.webhooks.manage.create_webhook(principal, receiver.url, WebhookChoice())

            async def serve(done: Callable[[], bool]) -> tuple[float, float]:
                """Serve once a second, as a worker does; return the CPU ms of this thread and of PostgreSQL."""
                before, limit = (time.thread_time(), _postgres_seconds(site) or 0.0), time.perf_counter() + WAIT_S
                while not done():
                    if time.perf_counter() > limit:
                        raise RuntimeError(f"{receiver.messages} messages came")
                    await app.webhooks.deliver.serve_due()
                    await asyncio.sleep(1)
                return (time.thread_time() - before[0]) * 1000, ((_postgres_seconds(site) or 0.0) - before[1]) * 1000

            await serve(_after(2))
            idle = await serve(_after(IDLE_S))
            for number in range(plan.changes):
                note = workload.make_note(plan.rows + number)
                new = NewMemory("user-0", note.category, note.text, type=MemoryType.episodic)
                await app.memory.write.write_memory(principal, new)
            wanted = plan.webhooks * plan.changes
            busy = await serve(lambda: receiver.messages >= wanted)
    per = [f"{each / plan.webhooks / IDLE_S:.2f}" for each in idle]
    report.figures["an idle webhook, CPU a second"] = f"{per[0]} + {per[1]} ms"
    report.figures["a delivery, CPU"] = f"{busy[0] / wanted:.1f} + {busy[1] / wanted:.1f} ms"


def _after(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


@dataclass(slots=True)
class _Receiver:
    """A receiver of webhooks that takes every message."""

    url: str = ""
    messages: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the messages of a connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                self.messages += 1
                writer.write(b"HTTP/1.1 204 x\r\n\r\n")
        writer.close()


@contextlib.contextmanager
def _receiver() -> Iterator[_Receiver]:
    """Run a receiver in a thread of its own."""
    receiver, loop = _Receiver(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    opening = asyncio.start_server(receiver.answer, HOST, 0)
    listening = asyncio.run_coroutine_threadsafe(opening, loop).result(WAIT_S)
    receiver.url = f"http://{HOST}:{listening.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)


def _postgres_seconds(site: Site) -> float | None:
    return cpu_time.family_seconds(site.home.postgres.owner_pid() or 0)


async def _wait_until(condition: Callable[[], bool]) -> None:
    limit = time.perf_counter() + WAIT_S
    while not condition():
        if time.perf_counter() > limit:
            raise RuntimeError("an event did not come")
        await asyncio.sleep(0.02)
