"""What a write costs: round trips to PostgreSQL, milliseconds a relation, and the SQL against a bare INSERT.

    python -m bench.write_path [--database URL] [--memories 3000] [--rounds 200]

Without --database an embedded cluster is made in a temporary directory and removed afterwards. With it, the URL is that
of a superuser on a throw-away server: a database of our own is made there and dropped, and the passwords of mnema_admin
and mnema_app are set anew. Embeddings are made up, so that only the database is measured.
"""

import argparse
import asyncio
import hashlib
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.asyncpg import register_vector
from pydantic import SecretStr

from app.bootstrap import Application, Doubles, application, create_roles, migrate_database
from app.cli.embedded.postgres import EmbeddedPostgres
from app.config.settings import Settings
from app.domain.memory import MemoryType, NewMemory
from app.domain.scope import Scope

DIMENSION = 384
TOPICS = 20
TOPIC_SIZE = 20
EDGES = 5
WARM_UP = 20
MOST_MS = 2.0  # a relation (seed 003 §2)
MOST_TRIPS = 2
COLD = "first of a connection"
NO_DISK = "?synchronous_commit=off"


class CountingProxy:
    """A TCP proxy before PostgreSQL that counts flights: what the client sends after the server has sent something.
    One flight is one round trip, however many messages or packets it is made of."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._carriers: set[asyncio.Task[None]] = set()
        self.flights = 0

    async def __aenter__(self) -> "CountingProxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._carriers:
            task.cancel()
        await asyncio.gather(*self._carriers, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """The URL it was made with, by way of the proxy."""
        login, port = self._parts.netloc.rpartition("@")[0], self._server.sockets[0].getsockname()[1]
        return urlunsplit(self._parts._replace(netloc=f"{login}@127.0.0.1:{port}"))

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, writer))
        self._carriers.add(task)
        task.add_done_callback(self._carriers.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(self._parts.hostname, self._parts.port or 5432)
        client_spoke_last = False

        def spoke(client: bool) -> None:
            nonlocal client_spoke_last
            self.flights += client and not client_spoke_last
            client_spoke_last = client

        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(reader, requests, lambda: spoke(client=True)))
                pumps.create_task(_pump(answers, writer, lambda: spoke(client=False)))
        except* OSError:
            pass  # one side went away, and the other with it
        finally:
            requests.transport.abort()
            writer.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, seen: Callable[[], None]) -> None:
    while data := await source.read(1 << 16):
        seen()
        sink.write(data)
        await sink.drain()
    sink.write_eof()


class TopicEmbedder:
    """Made-up unit vectors: texts of one topic ("Topic 3 …") lie close together, all others far from everything."""

    model = "all-MiniLM-L6-v2"
    dimension = DIMENSION

    async def embed(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """One vector a text."""
        return [_vector(text) for text in texts]

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """As `embed` for one text."""
        return _vector(text)

    async def close(self) -> None:
        """Nothing to close."""


def _vector(text: str) -> NDArray[np.float32]:
    vector = _direction(text)
    if text.startswith("Topic "):
        vector = _direction(" ".join(text.split()[:2])) + 0.6 * vector  # cosine to its neighbours: about 0.74
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _direction(seed: str) -> NDArray[np.float64]:
    vector = np.random.default_rng(int(hashlib.sha256(seed.encode()).hexdigest()[:16], 16)).standard_normal(DIMENSION)
    return vector / float(np.linalg.norm(vector))


def related_text(number: int) -> str:
    """A new text that has close neighbours once its topic has members."""
    return f"Topic {number % TOPICS} is on the table again, see note {uuid4().hex}."


def lonely_text() -> str:
    """A new text that has none."""
    return f"Nobody else has said what note {uuid4().hex} says."


@dataclass
class Bench:
    """An application on one connection, its tenant, and what the driver took for each statement."""

    app: Application
    scope: Scope
    taken: list[Any] = field(default_factory=list)

    async def remember(self, text: str, **fields: Any) -> int:
        """Write it into a thread, as POST /memory does; how many relations it got."""
        new = NewMemory(**{"user_id": "maya", "category": "preferences", "text": text, "thread_id": "t1"} | fields)
        return (await self.app.write.remember(self.scope, new)).related

    async def statement_ms(self, text: str, edges: int) -> float:
        """Milliseconds the driver took for `apply_changes`, which must make so many relations."""
        self.taken.clear()
        if (related := await self.remember(text)) != edges:
            raise RuntimeError(f"expected {edges} relations, got {related}")
        await asyncio.sleep(0)  # the driver tells its listeners a turn of the loop later
        return next(query.elapsed for query in self.taken if "apply_changes" in query.query) * 1000


@asynccontextmanager
async def bench_on(url: str, scope: Scope | None = None) -> AsyncIterator[Bench]:
    """An application with one connection to `url`; a new tenant unless a scope is given."""
    one = Settings(database_url=SecretStr(url), pool_min=1, pool_max=1)
    async with application(one, Doubles(embedder=TopicEmbedder())) as app:
        bench = Bench(app, scope or Scope((await app.tenants.create(f"bench {uuid4().hex}")).id))
        async with (await app.engine.pool()).acquire() as connection:
            connection.add_query_logger(bench.taken.append)
        yield bench


async def count_round_trips(proxy: CountingProxy, scope: Scope | None = None, rounds: int = 20) -> dict[str, list[int]]:
    """Flights a write, by kind: the very first of a connection (COLD), then those that follow a warm-up."""
    counts: dict[str, list[int]] = {}
    async with bench_on(proxy.url, scope) as bench:

        async def count(kind: str, text: str, **fields: Any) -> None:
            before = proxy.flights
            await bench.remember(text, **fields)
            counts.setdefault(kind, []).append(proxy.flights - before)

        await count(COLD, related_text(0))
        for _ in range(EDGES):
            await bench.remember(related_text(0))
        for _ in range(rounds):
            text = related_text(0)
            await count(f"created, {EDGES} relations", text)
            await count("updated", text.upper())
            await count("turn", text, type=MemoryType.turn)
    return counts


_COLUMNS = """tenant_id, id, user_pk, user_id, thread_id, seq, agent_id, run_id, actor_id, role, type, category, text,
    steps_text, text_hash, importance, pinned, tags, state, source, metadata, superseded_by, purge_at, version,
    created_at, updated_at"""
_PLACES = ", ".join(f"${place + 1}" for place in range(len(_COLUMNS.split(","))))
_BARE = f"INSERT INTO memories ({_COLUMNS}) VALUES ({_PLACES})"
_EXCUSE = "INSERT INTO history (tenant_id, id, memory_id, event) VALUES ($1, $2, $3, 'ADD')"
_PLAIN = f"""WITH m AS ({_BARE} RETURNING tenant_id, user_pk, id, type, category, state)
    INSERT INTO vec_minilm_l6_v2 (tenant_id, user_pk, memory_id, type, category, state, embedding)
    SELECT m.*, ${len(_COLUMNS.split(",")) + 1} FROM m"""


async def measure(superuser: str, app_url: str, scope: Scope, rounds: int) -> dict[str, tuple[float, float]]:
    """Milliseconds of each statement, taken in turn and not waiting for the disk: the median and the first decile."""
    # in this mode neither foreign keys nor the tripwire fire, and a superuser obeys no policy: as bare as can be
    bare = await asyncpg.connect(superuser + NO_DISK, server_settings={"session_replication_role": "replica"})
    # what a memory and its vector cost the application without any record of it: policies and foreign keys, no tripwire
    plain = await asyncpg.connect(superuser + NO_DISK, server_settings={"app.tenant_id": str(scope.tenant_id)})
    await plain.execute("SET ROLE mnema_app")
    await register_vector(plain)
    template = await bare.fetchrow(f"SELECT {_COLUMNS} FROM memories WHERE tenant_id = $1 LIMIT 1", scope.tenant_id)
    times: dict[str, list[float]] = {name: [] for name in ("SELECT 1", "INSERT", "PLAIN", "no relation", "relations")}
    async with bench_on(app_url + NO_DISK, scope) as bench:
        for number in range(rounds + WARM_UP):
            times["SELECT 1"].append(await _timed(bare.fetchval("SELECT 1")))
            times["INSERT"].append(await _timed(bare.execute(_BARE, *_fresh(template))))
            vector = HalfVector(_vector(lonely_text()))
            times["PLAIN"].append(await _committed(plain, _fresh(template), vector))
            times["no relation"].append(await bench.statement_ms(lonely_text(), 0))
            times["relations"].append(await bench.statement_ms(related_text(number), EDGES))
    await bare.close()
    await plain.close()
    async with bench_on(app_url, scope) as durable:
        times["durable"] = [await _timed(durable.remember(related_text(n))) for n in range(rounds + WARM_UP)]
    return {name: tuple(np.quantile(values[WARM_UP:], (0.5, 0.1))) for name, values in times.items()}


def _fresh(template: Any) -> list[Any]:
    """The row as it is, with an id and a text of its own."""
    text = lonely_text()
    other = {"id": uuid4(), "text": text, "text_hash": hashlib.sha256(text.encode()).digest()}
    return [other.get(name, value) for name, value in template.items()]


async def _committed(connection: Any, row: Sequence[Any], vector: HalfVector) -> float:
    """The plain INSERT as a transaction of its own: its commit counts, the extra round trip to ask for it does not."""
    transaction = connection.transaction()
    await transaction.start()
    # what the tripwire looks for, untimed
    await connection.execute(_EXCUSE, row[0], uuid4(), str(row[1]))
    trip = await _timed(connection.fetchval("SELECT 1"))
    return await _timed(connection.execute(_PLAIN, *row, vector)) + await _timed(transaction.commit()) - trip


async def _timed(work: Any) -> float:
    start = time.perf_counter()
    await work
    return (time.perf_counter() - start) * 1000


def report(counts: dict[str, list[int]], ms: dict[str, tuple[float, float]]) -> bool:
    """Print the table; whether every limit is kept."""
    print(f"round trips to PostgreSQL a write (at most {MOST_TRIPS})      least   median     most")
    for kind, numbers in counts.items():
        print(f"  {kind:<44}{min(numbers):>9}{statistics.median(numbers):>9.0f}{max(numbers):>9}")
    print("\nms of a statement, round trip included, without the disk  median   decile   times the plain INSERT")
    labels = {
        "SELECT 1": "SELECT 1",
        "INSERT": "bare INSERT of the row",
        "PLAIN": "plain INSERT of row and vector",
        "no relation": "apply_changes, no relation",
        "relations": f"apply_changes, {EDGES} relations",
    }
    for name, label in labels.items():
        ratios = [value / plain for value, plain in zip(ms[name], ms["PLAIN"], strict=True)]
        print(f"  {label:<44}{ms[name][0]:>9.3f}{ms[name][1]:>9.3f}{ratios[0]:>9.2f}{ratios[1]:>9.2f}")
    edge = [(five - none) / EDGES for five, none in zip(ms["relations"], ms["no relation"], strict=True)]
    others = {f"a relation (at most {MOST_MS:g})": edge, "a whole write, on disk, unembedded": ms["durable"]}
    for label, pair in others.items():
        print(f"  {label:<44}{pair[0]:>9.3f}{pair[1]:>9.3f}")
    warm = [number for kind, numbers in counts.items() if kind != COLD for number in numbers]
    return max(warm) <= MOST_TRIPS and edge[0] <= MOST_MS


async def run(superuser: str, memories: int, rounds: int) -> bool:
    """Make a database on this server, fill it, measure, drop it; whether every limit is kept."""
    name, passwords = f"mnema_bench_{uuid4().hex[:12]}", {"mnema_admin": uuid4().hex, "mnema_app": uuid4().hex}
    parts = urlsplit(superuser)._replace(path=f"/{name}")
    host = parts.netloc.rpartition("@")[2]
    admin, app = (urlunsplit(parts._replace(netloc=f"{r}:{p}@{host}")) for r, p in passwords.items())
    try:
        await create_roles(superuser, name, passwords)
        await migrate_database(admin, Settings())
        async with bench_on(app + NO_DISK) as bench:
            for number in range(memories):
                await bench.remember(related_text(number) if number < TOPICS * TOPIC_SIZE else lonely_text())
        await _execute(urlunsplit(parts), "VACUUM ANALYZE")
        async with CountingProxy(app) as proxy:
            counts = await count_round_trips(proxy, bench.scope)
        ms = await measure(urlunsplit(parts), app, bench.scope, rounds)
        print(f"{memories} memories of one user, {rounds} rounds\n")
        return report(counts, ms)
    finally:
        await _execute(superuser, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


def main() -> int:
    """0 when every limit is kept, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m bench.write_path")
    parser.add_argument("--database", metavar="URL", help="a superuser's URL on a throw-away server")
    parser.add_argument("--memories", type=int, default=3000, help=f"at least {TOPICS * (EDGES + 1)}")
    parser.add_argument("--rounds", type=int, default=200)
    chosen = parser.parse_args()
    if chosen.database:
        return int(not asyncio.run(run(chosen.database, chosen.memories, chosen.rounds)))
    home = Path(tempfile.mkdtemp(prefix="mnema-bench-"))
    cluster = EmbeddedPostgres(home, settings={"shared_buffers": "256MB"}, durable=True)
    try:
        return int(not asyncio.run(run(cluster.start().url(), chosen.memories, chosen.rounds)))
    finally:
        cluster.stop("immediate")
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
