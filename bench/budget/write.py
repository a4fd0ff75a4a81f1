"""The CPU budget of POST /memory: server and PostgreSQL at 8 clients, with the real model.

The model computes on threads of its own, whose CPU is counted apart. The server's other parts are shares of samples of
its main thread. PostgreSQL's two calls are measured on one connection; the parts of the second one are shares of the
times of its statement (EXPLAIN ANALYZE). The rest of its CPU are commits, events and its own upkeep.
"""

import asyncio
import json
import re
import signal
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import thread_time
from typing import Any, Final
from unittest import mock

import asyncpg

from app.bootstrap import build_application
from app.bootstrap.model import default_model
from app.domain.memory.memory import NewMemory
from app.domain.principal import Principal
from app.embedded.home import DATABASE
from app.providers.embeddings.local import LoadedModel
from app.providers.embeddings.minilm import MiniLM
from app.storage.uow import Row, UnitOfWork
from bench import cpu_time
from bench.budget.table import Part
from bench.child_processes import running_server
from bench.rivals.corpus import make_memory
from bench.rivals.sides import ServerSide, Sizes, base_load, open_mnema, settle_databases
from bench.throwaway import Site, open_site, using_model

CLIENTS: Final = 8
RECORDED: Final = 200
EXPLAINED: Final = 40
WARMUP: Final = 20
LEAST_MS: Final = 0.01
"""A table that gets no row takes less."""
WRITTEN_FROM: Final = 1_000_000
METERED_FROM: Final = 5_000_000
SPACE: Final = "minilm_l6_v2"
SCAN: Final = f"""SELECT min(v.embedding <=> $3) FROM vec_{SPACE} v
    WHERE v.tenant_id = $1 AND v.user_pk = user_pk_of($1, $2) AND v.state = 'active' AND v.type <> 'chunk'"""
PARAMETERS: Final = {
    "p_tenant": "uuid",
    "p_batch": "jsonb",
    "p_vector_ids": "uuid[]",
    "p_vectors": "halfvec[]",
    "p_tokens": "bytea[]",
    "p_images": "jsonb",
}
"""The parameters of record_changes, in order."""


def measure_parts(memories: int, users: int) -> list[Part]:
    """Return the parts of a write, those of the server first."""
    sizes = Sizes(memories=memories, users=users, clients=CLIENTS)
    with using_model(MiniLM.name), open_site(0) as site:
        with open_mnema(site, sizes) as (shipped, _nearest):
            shipped.load_corpus()
        settle_databases(site, (DATABASE,))
        server, model, postgres = _measure_server(site, sizes)
        database = asyncio.run(_measure_database(site, users))
        floor = _pass_ms(site, users)
    rest = Part("PostgreSQL: commits, events, upkeep", postgres - sum(part.cpu_ms for part in database))
    return [Part("model", model, floor, "one pass of a text alone"), *server, *database, rest]


def _measure_server(site: Site, sizes: Sizes) -> tuple[list[Part], float, float]:
    """Return the parts of the server's main thread, and the milliseconds of its other threads and of PostgreSQL."""
    file = site.home.path / "samples.json"
    arguments = str(site.home.path), str(file), "write"
    with running_server("bench.budget.server", *arguments, log=site.home.path / "budget.log") as (process, port):
        side = ServerSide("Mnema", site, sizes, process.pid, replace(base_load("mnema", port, sizes), key=site.key))
        side.measure("write", CLIENTS, WRITTEN_FROM)  # connections, statements, caches
        process.send_signal(signal.SIGUSR1)
        before = cpu_time.thread_seconds(process.pid), cpu_time.process_seconds(process.pid) or 0.0
        done = side.measure("write", CLIENTS, 2 * WRITTEN_FROM)
        main = cpu_time.thread_seconds(process.pid) - before[0]
        own = done.own_cpu_ms or 0.0
        main_ms = own * main / ((cpu_time.process_seconds(process.pid) or 0.0) - before[1])
    samples = json.loads(file.read_text(encoding="utf-8"))["groups"]
    share = main_ms / sum(samples.values())
    parts = [Part(f"server: {name}", count * share) for name, count in samples.items()]
    return parts, own - main_ms, done.postgres_cpu_ms or 0.0


async def _measure_database(site: Site, users: int) -> list[Part]:
    """Return what the calls of a write cost PostgreSQL on one connection, the second one by table."""
    async with build_application(default_model(site.home.server_settings(site.cluster))) as app:
        scope = await app.tenancy.tenants.authenticate(site.key)
        assert scope is not None
        async with (await app.parts.database.engines[""].get_pool()).acquire() as connection:
            meter = _Meter(connection, connection.get_server_pid())
            await connection.execute("SET plan_cache_mode = force_generic_plan")  # planning the scan costs as much
            await connection.fetch("SELECT set_config('app.tenant_id', $1, false)", str(scope.tenant_id))
            await meter.find_statement()
            with mock.patch.object(UnitOfWork, "call", lambda _uow, *call: meter.run_call(*call)):
                for number in range(METERED_FROM, METERED_FROM + RECORDED):
                    one = make_memory(number, users)
                    told: dict[str, Any] = {"category": one.category, "importance": one.importance}
                    await app.memory.write.write_memory(scope, NewMemory(user_id=one.user_id, text=one.text, **told))
    spent = {name: median(values) for name, values in meter.spent.items()}
    tables = {name: median(values) for name, values in meter.tables.items()}
    share = spent["apply_changes"] / sum(tables.values())
    parts = [Part(f"PostgreSQL: {name}", ms * share) for name, ms in tables.items() if ms >= LEAST_MS]
    return [
        Part("PostgreSQL: neighbours", spent["neighbours"], spent["scan"], "one scan of the user's vectors"),
        *parts,
    ]


@dataclass(slots=True)
class _Meter:
    """The CPU milliseconds of PostgreSQL by call, and the milliseconds of each table's rows in EXPLAIN ANALYZE."""

    connection: asyncpg.Connection
    backend: int
    spent: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tables: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statement: str = ""

    async def find_statement(self) -> None:
        """Take the statement out of record_changes, with the types of its parameters."""
        source = await self.connection.fetchval(
            "SELECT prosrc FROM pg_proc WHERE proname = $1", f"record_changes_{SPACE}"
        )
        body = source[source.index("WITH threads") : source.index("RETURN coalesce")].rstrip().rstrip(";")
        body = body.replace("INTO v_revs ", "")
        for place, (name, kind) in enumerate(PARAMETERS.items(), 1):
            body = re.sub(rf"\b{name}\b", f"(${place}::{kind})", body)
        self.statement = f"EXPLAIN (ANALYZE, FORMAT JSON) {body}"

    async def run_call(self, principal: Principal, statement: str, *arguments: Any) -> list[Row]:
        """Run a call of a write and meter it."""
        if "neighbours" in statement:
            await self._meter("scan", SCAN, principal.tenant_id, arguments[0], arguments[4])
            return await self._meter("neighbours", statement, principal.tenant_id, *arguments)
        created = "updates" not in arguments[0] and len(self.spent["apply_changes"]) >= WARMUP
        if created and len(self.tables["memories"]) < EXPLAINED:
            await self._explain(principal, arguments)
        return await self._meter("apply_changes", statement, principal.tenant_id, *arguments)

    async def _meter(self, name: str, statement: str, *arguments: Any) -> list[Row]:
        before = cpu_time.thread_seconds(self.backend)
        rows: list[Row] = await self.connection.fetch(statement, *arguments)
        self.spent[name].append((cpu_time.thread_seconds(self.backend) - before) * 1000)
        return rows

    async def _explain(self, principal: Principal, arguments: Sequence[Any]) -> None:
        """Explain the statement in a transaction that is rolled back."""
        batch, ids, vectors, tokens, *_rest = arguments
        await self.connection.fetch("BEGIN")
        await self.connection.fetch("SELECT keep_epoch()")
        plan = await self.connection.fetchval(self.statement, principal.tenant_id, batch, ids, vectors, tokens, {})
        await self.connection.fetch("ROLLBACK")
        found: dict[str, Any] = (json.loads(plan) if isinstance(plan, str) else plan)[0]
        for node in _inserts(found["Plan"]):
            below = sum(child["Actual Total Time"] for child in node["Plans"] if "Subplan Name" not in child)
            self.tables[node["Relation Name"]].append(node["Actual Total Time"] - below)
        whole = found["Execution Time"] - sum(values[-1] for values in self.tables.values())
        self.tables["triggers, JSON, start of the statement"].append(whole)


def _inserts(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a plan that insert rows."""
    if node["Node Type"] == "ModifyTable":
        yield node
    for child in node.get("Plans", ()):
        yield from _inserts(child)


def _pass_ms(site: Site, users: int) -> float:
    """Return the CPU milliseconds of the model for one text on one thread, without anything around it."""
    model = LoadedModel(MiniLM(), site.home.path / "models", "int8")
    written = [model.text_form.write(make_memory(number, users).text) for number in range(RECORDED)]
    encoded = [model.tokenise_texts([text]) for text in written]
    spent = []
    for text, encoding in zip(written, encoded, strict=True):
        before = thread_time()
        model.embed_batch([text], encoding)
        spent.append((thread_time() - before) * 1000)
    return median(spent)
