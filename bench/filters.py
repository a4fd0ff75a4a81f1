"""The cost of `where`: a search with a filter against the same search without one, `mnema bench filters`.

A tenant of made-up memories (`bench/scale/tenants.py`) has metadata: all memories have `half`, and few have `rare`.
Searches of the whole tenant and of one user take turns, without a filter, with one that half of the memories match, and
with some that few match: by the value, by a part of a value of a key that few have, and by one of a key that all have.
Then writes with tags and metadata take turns with all indexes and without each of those that serve filters.
"""

import asyncio
import itertools
import json
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import mean, median, quantiles
from typing import Any, Final
from uuid import UUID

import asyncpg

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal
from app.domain.where.numbers import labels_within
from app.domain.where.parsing import parse_where
from app.usecases.recall.search import SearchQuery
from bench import cpu_time, workload
from bench.scale.loading import load_tenants
from bench.scale.tenants import Tenant, large_users
from bench.throwaway import Site, open_site, using_model

GOAL: Final = 1.3
"""The aim: the p95 of a filtered search is at most so many times that of an unfiltered one."""
FEW: Final = 3
USERS: Final[Mapping[str, str | None]] = {"tenant": None, "user of 1,000": "small", "user of 5,000": "middle"}
INDEXES: Final = ("memories_labels", "memories_numbers", "memories_filtered")
ALL: Final = "all indexes"
ROUNDS: Final = 30
_LEAVE: Final = """UPDATE pg_index SET indisready = i.relname <> $1 FROM pg_class i
    WHERE i.oid = indexrelid AND i.relname = ANY ($2)"""
MERGED: Final = ("memories_labels", "memories_numbers")
"""The indexes that collect what is new, and sort it in later."""
_LABELS: Final = re.compile(r"('\{-?\d+,-?\d+,)[-\d,]+")
WHERE: Final[Mapping[str, dict[str, Any] | None]] = {
    "none": None,
    "half": {"metadata.half": 1},
    "few": {"metadata.rare": "yes"},
    "few have the key": {"metadata.rare": {"contains": "ye"}},
    "few of all with the key": {"metadata.half": {"gt": 1}},
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run: the memories of the tenant, and the searches of each kind."""

    memories: int = 100_000
    searches: int = 100
    writes: int = 40


@dataclass(slots=True)
class Report:
    """Milliseconds of searches by scope and filter, PostgreSQL's CPU, the results of the last one, and the plan.

    `writes`: PostgreSQL's CPU milliseconds of a write in each round, with all indexes and without each. `sizes`: MB.
    """

    plan: Plan
    searches: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    cpu: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    found: dict[tuple[str, str], int] = field(default_factory=dict)
    index_plan: str = ""
    writes: dict[str, list[float]] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)
    profile: None = None

    def p95(self, scope: str, name: str) -> float:
        """Return the 95th percentile of the searches of a scope with a filter."""
        return quantiles(self.searches[scope, name], n=20)[-1]

    def ratio(self, scope: str, name: str) -> float:
        """Return how many times the p95 is that of the searches of the scope without a filter."""
        return self.p95(scope, name) / self.p95(scope, "none")

    def cpu_ratio(self, scope: str, name: str) -> float:
        """Return how many times PostgreSQL's CPU is that of the searches of the scope without a filter, by means."""
        return mean(self.cpu[scope, name]) / mean(self.cpu[scope, "none"])

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        rows = [
            {
                "scope": scope,
                "filter": name,
                "p50_ms": round(median(times), 2),
                "p95_ms": round(self.p95(scope, name), 2),
                "ratio": round(self.ratio(scope, name), 3),
                "cpu_ms": round(mean(self.cpu[scope, name]), 2),
                "cpu_ratio": round(self.cpu_ratio(scope, name), 3),
                "found": self.found[scope, name],
            }
            for (scope, name), times in self.searches.items()
        ]
        written = {"writes": self.writes, "index_mb": self.sizes, "index_plan": self.index_plan}
        return {"plan": asdict(self.plan), "searches": rows} | written


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Run the whole benchmark and remove everything afterwards. `say` gets messages about its progress."""
    say("starting a throw-away PostgreSQL")
    with using_model("all-MiniLM-L6-v2"), open_site(10) as site:
        return asyncio.run(_measure_all(site, plan, say))


async def _measure_all(site: Site, plan: Plan, say: Callable[[str], None]) -> Report:
    report = Report(plan)
    sql = await asyncpg.connect(site.superuser_url)
    try:
        async with site.open_application() as (app, principal):
            tenant = Tenant(principal.tenant_id, large_users(plan.memories))
            await load_tenants(sql, [tenant], memory="512MB", say=say)
            await _label(sql, tenant)
            say(f"{plan.searches} searches of {len(USERS) * len(WHERE)} kinds in turn")
            await _measure_searches(site, app, principal, report)
            report.index_plan = await _explain(sql, principal.tenant_id)
            for index in INDEXES:
                report.sizes[index] = round(
                    await sql.fetchval("SELECT pg_relation_size($1::regclass)", index) / 2**20, 1
                )
            say(f"{ROUNDS} times {plan.writes} writes with all indexes and without each")
            await _measure_writes(site, app, principal, sql, report)
    finally:
        await sql.close()
    return report


async def _label(sql: asyncpg.Connection, tenant: Tenant) -> None:
    """Give the memories their metadata."""
    rare = [tenant.ids[int(row)] for user in ("middle", "small") for row in tenant.rows_of(user)[:FEW]]
    await sql.execute(
        """UPDATE memories SET metadata = jsonb_build_object('half', abs(hashtext(id::text)) % 2, 'n', seq)
           || CASE WHEN id = ANY ($2) THEN '{"rare": "yes", "half": 2}' ELSE '{}'::jsonb END WHERE tenant_id = $1""",
        tenant.id,
        rare,
    )
    await sql.execute("VACUUM (ANALYZE) memories")


async def _measure_searches(site: Site, app: Application, principal: Principal, report: Report) -> None:
    """Search with each filter in each scope in turn. The first searches warm up."""
    for number in range(-5, report.plan.searches):
        backends = cpu_time.child_pids(site.home.postgres.owner_pid() or 0)
        for scope, user in USERS.items():
            for name, where in WHERE.items():
                filters = Filters(user, where=parse_where(where))
                before = sum(map(cpu_time.thread_seconds, backends))
                took, report.found[scope, name] = await _search(app, principal, number, filters)
                spent = sum(map(cpu_time.thread_seconds, backends)) - before
                if number >= 0:
                    report.searches.setdefault((scope, name), []).append(took)
                    report.cpu.setdefault((scope, name), []).append(spent * 1000)


async def _search(app: Application, principal: Principal, number: int, filters: Filters) -> tuple[float, int]:
    """Return the milliseconds and the number of results of a search."""
    chance = random.Random(f"search {number}")
    text = workload.make_sentence(chance, chance.randrange(workload.TOPICS), workload.WORDS_A_QUERY)
    started = time.perf_counter()
    answer = await app.recall.search.search_memories(principal, SearchQuery(text, filters, top_k=10, min_relevance=0.0))
    return (time.perf_counter() - started) * 1000, len(answer.results)


async def _measure_writes(
    site: Site, app: Application, principal: Principal, sql: asyncpg.Connection, report: Report
) -> None:
    """Write memories with labels in turn: with all indexes, and without each, which PostgreSQL then leaves as it is."""
    postmaster = site.home.postgres.owner_pid() or 0
    new = map(_labelled, itertools.count())
    for turn in range(-2, ROUNDS):
        for name in (ALL, *INDEXES) if turn % 2 else (*reversed(INDEXES), ALL):
            await sql.execute(_LEAVE, name, INDEXES)
            before = {pid: cpu_time.thread_seconds(pid) for pid in cpu_time.child_pids(postmaster)}
            for memory in itertools.islice(new, report.plan.writes):
                await app.memory.write.write_memory(principal, memory)
            for merged in set(MERGED) - {name}:
                await sql.execute("SELECT gin_clean_pending_list($1::text::regclass)", merged)
            spent = sum(cpu_time.thread_seconds(pid) - begun for pid, begun in before.items())
            if turn >= 0:  # the first turns warm up
                report.writes.setdefault(name, []).append(spent * 1000 / report.plan.writes)


def _labelled(number: int) -> NewMemory:
    """Return a new memory with three tags and four keys of metadata."""
    chance = random.Random(f"labels {number}")
    text = f"{workload.make_sentence(chance, chance.randrange(workload.TOPICS), workload.WORDS_A_NOTE)} {number}."
    tags = tuple(f"tag {chance.randrange(1000)}" for _ in range(3))
    metadata = {"source": "bench", "project": f"p{chance.randrange(500)}", "n": number, "open": number % 2 == 0}
    category = chance.choice(workload.CATEGORIES)
    return NewMemory("small", category, text, type=MemoryType.episodic, tags=tags, metadata=metadata)


async def _explain(sql: asyncpg.Connection, tenant: UUID) -> str:
    """Return the plans of the statements that read the indexes of labels and of numbers."""
    path = f'$.{json.dumps(str(tenant))} ? (exists(@.metadata."rare" ? (@ == "yes")))'
    labels = """WHERE labels_of(w.tenant_id, w.tags, w.metadata) @? $1::text::jsonpath AND w.state = 'active'
        AND (w.tags <> '{}' OR w.metadata <> '{}')"""
    hashed = await sql.fetchval(
        "SELECT hashed_labels($1, $2::text::jsonb)", tenant, json.dumps({"half": labels_within("gt", 1)})
    )
    numbers = """WHERE number_labels(w.tenant_id, w.metadata) && $1 AND w.state = 'active'
        AND w.metadata @? 'strict $.** ? (@.type() == "number")'"""
    await sql.execute("SET max_parallel_workers_per_gather = 0")  # a statement whose result a variable keeps has none
    lines = []
    for condition, value in ((labels, path), (numbers, hashed)):
        rows = await sql.fetch(
            f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS) SELECT id FROM memories w {condition}",
            value,
        )
        lines += [_shorten(row[0]) for row in rows]
    return "\n".join(lines)


def _shorten(line: str) -> str:
    """Return a line of a plan without most of the labels of a range."""
    return _LABELS.sub(r"\1…", line)
