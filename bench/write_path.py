"""The cost of a write: round trips to PostgreSQL, milliseconds a relation, and the SQL against a bare INSERT.

    python -m bench.write_path [--database URL] [--memories 3000] [--rounds 200]

Without --database, an embedded cluster is created in a temporary directory and removed afterwards. With it, the URL is
of a superuser on a throw-away server: a database is created there and dropped, and the passwords of mnema_admin and
mnema_app are replaced. Embeddings are made up, so that only the database is measured.
"""

import argparse
import asyncio
import hashlib
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.asyncpg import register_vector
from pydantic import SecretStr

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.administration import create_roles, migrate_database
from app.config.settings import Settings
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal
from app.embedded.postgres import EmbeddedPostgres
from app.ports import Embedding
from app.providers.embeddings.base import VectorsOnlyEmbedder
from app.storage.uow import UnitOfWork
from bench import cpu_time
from bench.counting_proxy import CountingProxy

DIMENSION = 384
TOPICS = 20
TOPIC_SIZE = 20
EDGES = 5
WARM_UP = 20
TOKENS = bytes(range(96)) * 13  # as many words as a short text has
MOST_MS = 2.0  # limit for a relation
MOST_TRIPS = 2
MOST_TIMES = (
    2.5  # limit as a multiple of the plain INSERT in CPU time of PostgreSQL, which hardly depends on other load
)
COLD = "first of a connection"
NO_DISK = "?options=-c%20synchronous_commit%3Doff"
LABELS = {
    "SELECT 1": "SELECT 1",
    "INSERT": "bare INSERT of the row",
    "warm": "plain INSERT of row and embedding, warm",
    "PLAIN": "plain INSERT after the look-up",
    "no relation": "apply_changes, no relation",
    "relations": f"apply_changes, {EDGES} relations",
}
Taken = NDArray[np.float64]  # milliseconds: clock time with the round trip, and PostgreSQL's CPU time
_CALL = UnitOfWork.call


class TopicEmbedder(VectorsOnlyEmbedder):
    """An embedder with made-up unit vectors: texts of one topic ("Topic 3 …") are close together, others far apart.

    It also makes up tokens, because their storage is part of the comparison.
    """

    gives_tokens = True

    model = "all-MiniLM-L6-v2"
    dimension = DIMENSION

    async def embed_texts(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return one vector for each text."""
        return [_text_vector(text) for text in texts]

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of one text."""
        return _text_vector(text)

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """Return the vectors with made-up tokens."""
        return [Embedding(_text_vector(text), TOKENS) for text in texts]

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _text_vector(text: str) -> NDArray[np.float32]:
    vector = _hash_direction(text)
    if text.startswith("Topic "):
        vector = _hash_direction(" ".join(text.split()[:2])) + 0.6 * vector  # cosine to its neighbours: about 0.74
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _hash_direction(seed: str) -> NDArray[np.float64]:
    vector = np.random.default_rng(int(hashlib.sha256(seed.encode()).hexdigest()[:16], 16)).standard_normal(DIMENSION)
    return vector / float(np.linalg.norm(vector))


def related_text(number: int) -> str:
    """Return a new text that has close neighbours once its topic has members."""
    return f"Topic {number % TOPICS} is on the table again, see note {uuid4().hex}."


def lonely_text() -> str:
    """Return a new text without close neighbours."""
    return f"Nobody else has said what note {uuid4().hex} says."


@dataclass
class Bench:
    """An application on one connection to the backend `pid`, its tenant, and the time of each `apply_changes`."""

    app: Application
    principal: Principal
    pid: int
    taken: list[Taken] = field(default_factory=list)
    last_lookup: tuple[Any, ...] = ()  # the last look-up: statement and parameters

    async def remember_text(self, text: str, **fields: Any) -> int:
        """Write a text into a thread as POST /memory does. Return the number of its relations."""
        new = NewMemory(**{"user_id": "maya", "category": "preferences", "text": text, "thread_id": "t1"} | fields)
        return (await self.app.memory.write.write_memory(self.principal, new)).related

    async def apply_write(self, text: str, edges: int) -> Taken:
        """Return the time of `apply_changes`. Raise RuntimeError unless it creates `edges` relations."""
        if (related := await self.remember_text(text)) != edges:
            raise RuntimeError(f"expected {edges} relations, got {related}")
        return self.taken[-1]

    async def metered_call(self, uow: UnitOfWork, principal: Principal, statement: str, *args: Any) -> Any:
        """Run `UnitOfWork.call` and record its time."""
        taken, rows = await _time_work(self.pid, _CALL(uow, principal, statement, *args))
        if "apply_changes" in statement:
            self.taken.append(taken)
        else:
            self.last_lookup = (statement, principal.tenant_id, *args)
        return rows


@asynccontextmanager
async def open_bench(url: str, principal: Principal | None = None) -> AsyncIterator[Bench]:
    """Open an application with one connection to `url`, with a new tenant unless a principal is given."""
    one = Settings(database_url=SecretStr(url), secret_key=SecretStr(uuid4().hex), pool_min=1, pool_max=1)
    async with build_application(one, Doubles(embedder=TopicEmbedder())) as app:
        async with (await app.parts.database.engines[""].get_pool()).acquire() as connection:
            pid = connection.get_server_pid()
        bench = Bench(
            app, principal or Principal((await app.tenancy.tenants.create_tenant(f"bench {uuid4().hex}")).id), pid
        )
        with mock.patch.object(UnitOfWork, "call", lambda uow, *args: bench.metered_call(uow, *args)):
            yield bench


async def count_round_trips(
    proxy: CountingProxy, principal: Principal | None = None, rounds: int = 20
) -> dict[str, list[int]]:
    """Return the flights of each write by kind: the very first of a connection (COLD), then those after a warm-up."""
    counts: dict[str, list[int]] = {}
    async with open_bench(proxy.proxy_url, principal) as bench:

        async def count_write(kind: str, text: str, **fields: Any) -> None:
            before = proxy.flights
            await bench.remember_text(text, **fields)
            counts.setdefault(kind, []).append(proxy.flights - before)

        await count_write(COLD, related_text(0))
        for _ in range(EDGES):
            await bench.remember_text(related_text(0))
        for _ in range(rounds):
            text = related_text(0)
            await count_write(f"created, {EDGES} relations", text)
            await count_write("updated", text.upper())
            await count_write("turn", text, type=MemoryType.turn)
    return counts


_COLUMNS = """tenant_id, id, user_pk, user_id, thread_id, seq, agent_id, run_id, actor_id, role, type, category, text,
    steps_text, text_hash, importance, pinned, tags, state, source, metadata, superseded_by, purge_at, version,
    created_at, updated_at"""
_PLACES = ", ".join(f"${place + 1}" for place in range(len(_COLUMNS.split(","))))
_BARE = f"INSERT INTO memories ({_COLUMNS}) VALUES ({_PLACES})"
_EXCUSE = "INSERT INTO history (tenant_id, id, memory_id, event) VALUES ($1, $2, $3, 'ADD')"
_PLAIN = f"""WITH m AS ({_BARE} RETURNING tenant_id, user_pk, id, type, category, state)
    INSERT INTO vec_minilm_l6_v2 (tenant_id, user_pk, memory_id, type, category, state, embedding, tokens)
    SELECT m.*, ${len(_COLUMNS.split(",")) + 1}, ${len(_COLUMNS.split(",")) + 2} FROM m"""


async def measure_statements(superuser: str, app_url: str, principal: Principal, rounds: int) -> dict[str, list[Taken]]:
    """Return the times of each statement. The statements alternate and do not wait for the disk."""
    # replica mode turns off foreign keys and the tripwire, and no policy applies to a superuser: the barest INSERT
    bare = await asyncpg.connect(superuser + NO_DISK, server_settings={"session_replication_role": "replica"})
    # a memory and its vector as the application writes them, but without any record: policies and foreign keys apply
    plain = await asyncpg.connect(superuser + NO_DISK, server_settings={"app.tenant_id": str(principal.tenant_id)})
    await plain.execute("SET ROLE mnema_app")
    await register_vector(plain)
    template = await bare.fetchrow(f"SELECT {_COLUMNS} FROM memories WHERE tenant_id = $1 LIMIT 1", principal.tenant_id)
    taken: dict[str, list[Taken]] = {name: [] for name in LABELS}
    async with open_bench(app_url + NO_DISK, principal) as bench:
        for number in range(rounds + WARM_UP):
            taken["SELECT 1"].append((await _time_work(bare.get_server_pid(), bare.fetchval("SELECT 1")))[0])
            taken["INSERT"].append(
                (await _time_work(bare.get_server_pid(), bare.execute(_BARE, *_fresh_row(template))))[0]
            )
            taken["no relation"].append(await bench.apply_write(lonely_text(), 0))
            taken["relations"].append(await bench.apply_write(related_text(number), EDGES))
            vector = HalfVector(_text_vector(lonely_text()))
            taken["warm"].append(await _time_insert(plain, _fresh_row(template), vector))
            taken["PLAIN"].append(await _time_insert(plain, _fresh_row(template), vector, bench.last_lookup))
    await bare.close()
    await plain.close()
    return {name: values[WARM_UP:] for name, values in taken.items()}


def _fresh_row(template: Any) -> list[Any]:
    """Return the row with a new id and text."""
    text = lonely_text()
    other = {"id": uuid4(), "text": text, "text_hash": hashlib.sha256(text.encode()).digest()}
    return [other.get(name, value) for name, value in template.items()]


async def _time_insert(connection: Any, row: Sequence[Any], vector: HalfVector, look: Sequence[Any] = ()) -> Taken:
    """Return the time of the plain INSERT in its own transaction, with the commit but without the commit's round trip.

    With `look`, the look-up of a write comes first, because it empties the processor's caches.
    """
    pid = connection.get_server_pid()
    transaction = connection.transaction()
    await transaction.start()
    # the history row that the tripwire requires; not timed
    await connection.execute(_EXCUSE, row[0], uuid4(), str(row[1]))
    trip, _ = await _time_work(pid, connection.execute("SELECT"))
    if look:
        await connection.fetch(*look)
    insert, _ = await _time_work(pid, connection.execute(_PLAIN, *row, vector, TOKENS))
    commit, _ = await _time_work(pid, transaction.commit())
    return insert + commit - trip


async def _time_work(pid: int, work: Awaitable[Any]) -> tuple[Taken, Any]:
    used = cpu_time.thread_seconds(pid)
    start = time.perf_counter()
    result = await work
    clock = (time.perf_counter() - start) * 1000
    return np.array([clock, (cpu_time.thread_seconds(pid) - used) * 1000]), result


def print_report(counts: dict[str, list[int]], taken: dict[str, list[Taken]]) -> bool:
    """Print the table. Return True if every limit is kept."""
    print(f"round trips to PostgreSQL a write (at most {MOST_TRIPS})      least   median     most")
    for kind, numbers in counts.items():
        print(f"  {kind:<44}{min(numbers):>9}{statistics.median(numbers):>9.0f}{max(numbers):>9}")
    heads = f"{'clock':>9}{'PostgreSQL CPU':>18}{'of the plain INSERT':>22}"
    print(f"\n{'ms of a statement, without the disk: medians':<46}{heads}")
    ms = {name: np.median(values, axis=0) for name, values in taken.items()}
    for name, label in LABELS.items():
        ratio = ms[name] / ms["PLAIN"]
        print(f"  {label:<44}{ms[name][0]:>9.3f}{ms[name][1]:>18.3f}{ratio[0]:>14.2f}{ratio[1]:>8.2f}")
    edge = (ms["relations"] - ms["no relation"]) / EDGES
    print(f"  {f'a relation (at most {MOST_MS:g})':<44}{edge[0]:>9.3f}{edge[1]:>18.3f}")
    warm = [number for kind, numbers in counts.items() if kind != COLD for number in numbers]
    cheap = np.isnan(ms["relations"][1]) or ms["relations"][1] <= MOST_TIMES * ms["PLAIN"][1]
    return bool(max(warm) <= MOST_TRIPS and edge[0] <= MOST_MS and cheap)


async def run_benchmark(superuser: str, memories: int, rounds: int) -> bool:
    """Create a database on this server, fill it, measure and drop it. Return True if every limit is kept."""
    name = f"mnema_bench_{uuid4().hex[:12]}"
    passwords = {"mnema_admin": uuid4().hex, "mnema_app": uuid4().hex}
    parts = urlsplit(superuser)._replace(path=f"/{name}")
    host = parts.netloc.rpartition("@")[2]
    admin, app = (urlunsplit(parts._replace(netloc=f"{r}:{p}@{host}")) for r, p in passwords.items())
    try:
        await create_roles(superuser, name, passwords)
        await migrate_database(admin, Settings())
        async with open_bench(app + NO_DISK) as bench:
            for number in range(memories):
                await bench.remember_text(related_text(number) if number < TOPICS * TOPIC_SIZE else lonely_text())
        await _execute_statement(urlunsplit(parts), "VACUUM ANALYZE")
        async with CountingProxy(app) as proxy:
            counts = await count_round_trips(proxy, bench.principal)
        taken = await measure_statements(urlunsplit(parts), app, bench.principal, rounds)
        print(f"{memories} memories of one user, {rounds} rounds\n")
        return print_report(counts, taken)
    finally:
        await _execute_statement(superuser, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


async def _execute_statement(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


def main() -> int:
    """Run the benchmark. Return 0 if every limit is kept, else 1."""
    parser = argparse.ArgumentParser(prog="python -m bench.write_path")
    parser.add_argument("--database", metavar="URL", help="a superuser's URL on a throw-away server")
    parser.add_argument("--memories", type=int, default=3000, help=f"at least {TOPICS * (EDGES + 1)}")
    parser.add_argument("--rounds", type=int, default=200)
    chosen = parser.parse_args()
    if chosen.database:
        return int(not asyncio.run(run_benchmark(chosen.database, chosen.memories, chosen.rounds)))
    home = Path(tempfile.mkdtemp(prefix="mnema-bench-"))
    cluster = EmbeddedPostgres(home, settings={"shared_buffers": "256MB"}, durable=True)
    try:
        return int(
            not asyncio.run(run_benchmark(cluster.start_server().database_url(), chosen.memories, chosen.rounds))
        )
    finally:
        cluster.stop_server("immediate")
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
