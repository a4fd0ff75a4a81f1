"""The CPU budget of POST /memory/query: server and PostgreSQL at 8 clients, with the real model.

A question that is asked again finds its vector in the server's cache, so the difference to new questions is the
model's share. The server's other parts are shares of samples taken while old questions are asked. PostgreSQL runs the
statements of recorded questions again on one connection; the rest of its CPU writes receipts, events and access counts.

The floors: a question alone through the model, `GET /health`, and the search by vectors without words, relations and
token vectors.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any, Final

from app.embedded.home import DATABASE
from app.providers.embeddings.local import LoadedModel
from app.providers.embeddings.minilm import MiniLM
from app.storage.uow import ReadTx
from bench import cpu_time
from bench.budget.table import Part
from bench.child_processes import running_server
from bench.floor_recording import record_requests
from bench.http_clients import run_load
from bench.http_load import Load, encode_request
from bench.rivals.corpus import make_question
from bench.rivals.http_requests import RivalLoad
from bench.rivals.sides import ServerSide, Sizes, base_load, open_mnema, settle_databases
from bench.throwaway import Site, open_site, using_model

QUESTIONS: Final = 300
"""The questions that are asked again and again; the server's cache holds more."""
RECORDED: Final = 100
REPEATS: Final = 3
NEW_FROM: Final = 1_000_000
CLIENTS: Final = 8
TOP_K: Final = 10


@dataclass(frozen=True, slots=True)
class _Recorded(Load):
    """The questions of the comparison with rivals, for the recorder of statements."""

    def body_of(self, number: int) -> dict[str, Any]:
        """Return the body of a question."""
        return RivalLoad("mnema", 0, "query", 1, self.users, TOP_K, 0, self.seconds).body_of(number)


@dataclass(frozen=True, slots=True)
class _Health:
    """A load of `GET /health`, which reads nothing."""

    port: int
    clients: int = CLIENTS
    seconds: float = 600
    warmup: float = 0

    def build_requests(self) -> Iterator[bytes]:
        """Return the requests."""
        return repeat(encode_request("GET", "/health", ""), QUESTIONS)

    def is_right(self, status: int, _body: bytes, *, thoroughly: bool) -> bool:
        """Return True for an answer."""
        return status == 200


def measure_parts(memories: int, users: int) -> list[Part]:
    """Return the parts of a query, the server's most expensive first."""
    sizes = Sizes(memories=memories, users=users, top_k=TOP_K, clients=CLIENTS)
    with using_model(MiniLM.name), open_site(0) as site:
        with open_mnema(site, sizes) as (shipped, _nearest):
            shipped.load_corpus()
        settle_databases(site, (DATABASE,))
        file = site.home.path / "samples.json"
        with _running_server(site, sizes, file) as side:
            (new, _), (old, postgres) = _measure_in_turn(side)
            health = _health_ms(side)
            os.kill(side.pid, signal.SIGUSR1)
            for _ in range(REPEATS):
                side.measure("query", CLIENTS, 0)
        samples = json.loads(file.read_text(encoding="utf-8"))["groups"]
        database = asyncio.run(_measure_statements(site, users))
        model = Part("model", new - old, _pass_ms(site, users), "a question alone")
    share = old / sum(samples.values())
    server = [
        Part(f"server: {name}", count * share, *((health, "`GET /health`") if name == "HTTP" else ()))
        for name, count in samples.items()
    ]
    rest = Part("PostgreSQL: receipts, events, access counts", postgres - sum(part.cpu_ms for part in database))
    return [model, *server, *database, rest]


@contextlib.contextmanager
def _running_server(site: Site, sizes: Sizes, samples: Path) -> Iterator[ServerSide]:
    """Run the server with its sampler; yield a side that asks QUESTIONS questions at a time."""
    arguments = str(site.home.path), str(samples)
    with running_server("bench.budget.server", *arguments, log=site.home.path / "budget.log") as (process, port):
        base = replace(base_load("mnema", port, sizes), key=site.key, count=QUESTIONS, seconds=600, warmup=0)
        yield ServerSide("Mnema", site, sizes, process.pid, base)


def _measure_in_turn(side: ServerSide) -> list[tuple[float, float]]:
    """Return the medians of a new and of an old question's CPU, in the server and in PostgreSQL."""
    side.measure("query", CLIENTS, 0)  # connections, statements, caches
    found: list[list[tuple[float, float]]] = [[], []]
    for number in range(REPEATS):
        for place, first in enumerate((NEW_FROM + number * QUESTIONS, 0)):
            done = side.measure("query", CLIENTS, first)
            found[place].append((done.own_cpu_ms or 0.0, done.postgres_cpu_ms or 0.0))
    return [(median(own for own, _ in spent), median(postgres for _, postgres in spent)) for spent in found]


async def _measure_statements(site: Site, users: int) -> list[Part]:
    """Return what each statement of a question costs PostgreSQL, without plans and without other load in between."""
    recorded = await record_requests(site, _Recorded(0, site.key, "query", 1, queries=RECORDED, users=users))
    parts = []
    async with site.open_application() as (app, scope), app.parts.uow.calls(scope) as tx:
        backend = await tx.fetchval("SELECT pg_backend_pid()")
        for place, call in enumerate(recorded[0].calls):
            asked = [recording.calls[place].args for recording in recorded]
            name = call.sql.partition("FROM ")[2].partition("(")[0]
            spent = await _statement_ms(tx, backend, call.sql, asked)
            if name.startswith("recall_"):
                near = [(*args[:7], 0, 0, 0, args[10], False, *args[12:]) for args in asked]
                floor = await _statement_ms(tx, backend, call.sql, near)
                parts.append(Part(f"PostgreSQL: {name}", spent, floor, "by vectors alone"))
            else:
                parts.append(Part(f"PostgreSQL: {name}", spent))
    return parts


async def _statement_ms(tx: ReadTx, backend: int, sql: str, asked: Sequence[tuple[Any, ...]]) -> float:
    """Return the CPU milliseconds of a statement in its backend."""
    spent = []
    for _ in range(REPEATS):
        before = cpu_time.thread_seconds(backend)
        for args in asked:
            await tx.fetch(sql, *args)
        spent.append((cpu_time.thread_seconds(backend) - before) * 1000 / len(asked))
    return median(spent)


def _health_ms(side: ServerSide) -> float:
    """Return the server's CPU milliseconds of a request that reads nothing."""
    before = cpu_time.process_seconds(side.pid)
    requests = run_load(_Health(side.base.port)).requests
    return cpu_time.milliseconds_each(before, cpu_time.process_seconds(side.pid), requests) or 0.0


def _pass_ms(site: Site, users: int) -> float:
    """Return the CPU milliseconds of the model for one question on one thread, without anything around it."""
    model = LoadedModel(MiniLM(), site.home.path / "models", "int8")
    written = [model.query_form.write(make_question(number, users)[1]) for number in range(RECORDED)]
    encoded = [model.tokenise_texts([text]) for text in written]
    spent = []
    for _ in range(REPEATS):
        before = thread_time()
        for text, encoding in zip(written, encoded, strict=True):
            model.embed_batch([text], encoding)
        spent.append((thread_time() - before) * 1000 / RECORDED)
    return min(spent)
