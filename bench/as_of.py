"""The cost of questions in time: memory.query with `as_of` against the same query now, `mnema bench as-of`.

One user has `memories`, each with `versions` texts that follow each other. Queries now and queries as of several times
take turns in one process, without a filter, with filters by name and with `where`. So a ratio compares what was
measured within seconds, with one filter. Then edits are timed with and
without keeping the past, also in turns.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from statistics import median, quantiles
from typing import Any, Final, TypeAlias
from uuid import UUID

import asyncpg

from app.bootstrap import Application
from app.bootstrap.database import open_database
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.filters import Filters
from app.domain.memory.memory import NewMemory
from app.domain.memory.moments import NOW, Moments
from app.domain.principal import Principal
from app.domain.where.parsing import parse_where
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.storage.operations.spaces import active_space
from app.usecases.recall.request import Query
from bench import workload
from bench.throwaway import Site, open_site

GOAL: Final = 2.0
"""The aim: the p95 of a query as of a time is at most so many times that of a query now."""
WRITE_GOAL: Final = 1.05
"""The aim: the median of an edit that keeps the past is at most so many times that of one that does not."""
USER: Final = "walker"
BATCH: Final = 250
FILTERS: Final[Mapping[str, Filters]] = {
    "none": Filters(user_id=USER),
    "by name": Filters(user_id=USER, agent_id=workload.AGENT, tag="half", importance_min=2),
    "where": Filters(user_id=USER, where=parse_where({"metadata.half": 1})),
}
"""Filters of a query. Half of the memories match those by name, and `where`."""
Kind: TypeAlias = tuple[str, str]
"""A filter of FILTERS, and a time: `now`, or the version whose time it is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run: the user's memories, the texts of each, and the numbers of queries and edits."""

    memories: int = 5_000
    versions: int = 4
    queries: int = 150
    edits: int = 300


@dataclass(slots=True)
class Report:
    """Milliseconds of queries by filter and time, and of edits by way."""

    plan: Plan
    queries: dict[Kind, list[float]] = field(default_factory=dict)
    edits: dict[str, list[float]] = field(default_factory=dict)
    profile: None = None

    def p95(self, kind: Kind) -> float:
        """Return the 95th percentile of the queries with a filter at a time."""
        return quantiles(self.queries[kind], n=20)[-1]

    def ratio(self, kind: Kind) -> float:
        """Return how many times the p95 of queries at a time is that of queries with their filter now."""
        return self.p95(kind) / self.p95((kind[0], "now"))

    @property
    def edit_ratio(self) -> float:
        """The median of an edit that keeps the past as a multiple of the median of one that does not."""
        return median(self.edits["with"]) / median(self.edits["without"])

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        rows = [
            {
                "filter": kind[0],
                "as_of": kind[1],
                "p50_ms": round(median(ms), 3),
                "p95_ms": round(self.p95(kind), 3),
                "ratio": round(self.ratio(kind), 3),
            }
            for kind, ms in self.queries.items()
        ]
        return {
            "plan": asdict(self.plan),
            "queries": rows,
            "edit_ratio": round(self.edit_ratio, 3),
            "edit_ms": {name: round(median(ms), 3) for name, ms in self.edits.items()},
        }


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Run the whole benchmark and remove everything afterwards. `say` gets messages about its progress."""
    say("starting a throw-away PostgreSQL")
    with open_site(10) as site:
        return asyncio.run(_measure_all(site, plan, say))


async def _measure_all(site: Site, plan: Plan, say: Callable[[str], None]) -> Report:
    report = Report(plan)
    sql = await asyncpg.connect(site.superuser_url)
    try:
        async with site.open_application() as (app, principal), open_database(_settings(site)) as uow:
            space = (await active_space(uow)).name
            journal = Journal(uow, space, _settings(site).erasure_secret())
            say(f"storing {plan.memories} memories with {plan.versions} versions each")
            times = await _store_versions(app, journal, principal, sql, plan)
            await sql.execute("VACUUM (ANALYZE)")
            moments = {"now": NOW} | {f"version {n}": Moments(at) for n, at in enumerate(times, 1)}
            kinds = {(name, time): (chosen, at) for name, chosen in FILTERS.items() for time, at in moments.items()}
            say(f"{plan.queries} queries of {len(kinds)} kinds in turn")
            for number in range(-10, plan.queries):
                for kind, (filters, at) in kinds.items():
                    question = replace(_question(number), filters=filters, moments=at)
                    took = await _timed(app.recall.query.answer_query(principal, question))
                    if number >= 0:
                        report.queries.setdefault(kind, []).append(took)
            say(f"{plan.edits} edits with and without keeping the past in turn")
            report.edits = await _measure_edits(app, principal, sql, space, plan)
    finally:
        await sql.close()
    return report


def _settings(site: Site) -> Any:
    return site.home.server_settings(site.cluster)


async def _timed(work: Awaitable[object]) -> float:
    started = time.perf_counter()
    await work
    return (time.perf_counter() - started) * 1000


def _question(number: int) -> Query:
    chance = random.Random(f"query {number}")
    return Query(
        agent=workload.AGENT,
        query=workload.make_sentence(chance, chance.randrange(workload.TOPICS), workload.WORDS_A_QUERY),
        categories=workload.CATEGORIES,
        top_k=workload.TOP_K,
        min_relevance=0.0,
    )


async def _store_versions(
    app: Application, journal: Journal, principal: Principal, sql: asyncpg.Connection, plan: Plan
) -> list[datetime]:
    """Store all memories, then all their later versions, one after the other. Return the time behind each version."""
    ids = [new_id() for _ in range(plan.memories)]
    times: list[datetime] = []
    for version in range(plan.versions):
        for start in range(0, plan.memories, BATCH):
            numbers = range(start, min(start + BATCH, plan.memories))
            changes = [await _build_change(app, ids[n], n + version * plan.memories, version) for n in numbers]
            await journal.record(principal, changes)
        times.append(await sql.fetchval("SELECT clock_timestamp()"))
    return times


async def _build_change(app: Application, memory_id: UUID, number: int, version: int) -> MemoryChange:
    note = workload.make_note(number)
    [embedding] = await app.parts.embedder.encode_texts([note.text])
    now = app.parts.clock.now()
    half = number % 2
    new = NewMemory(
        user_id=USER,
        category=note.category,
        text=note.text,
        agent_id=workload.AGENT,
        tags=("half",) if half else (),
        metadata={"half": half},
        created_at=now,
    )
    return MemoryChange(
        kind=ChangeKind.updated if version else ChangeKind.created,
        memory_id=memory_id,
        user_id=USER,
        actor=workload.AGENT,
        new=None if version else new,
        fields={"text": note.text, "category": note.category, "updated_at": now} if version else {},
        vector=embedding.vector,
        tokens=embedding.tokens,
    )


async def _measure_edits(
    app: Application, principal: Principal, sql: asyncpg.Connection, space: str, plan: Plan
) -> dict[str, list[float]]:
    """Time edits of a text with the function that keeps the past, and with one of its name that does nothing."""
    keep: str = await sql.fetchval(
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = $1", f"keep_past_{space}"
    )
    skip = (
        f"CREATE OR REPLACE FUNCTION public.keep_past_{space}(p_tenant uuid, p_changed uuid[]) RETURNS void"
        " LANGUAGE plpgsql AS 'BEGIN NULL; END'"
    )
    ids = [row["id"] for row in await sql.fetch("SELECT id FROM memories WHERE user_id = $1 LIMIT 200", USER)]
    taken: dict[str, list[float]] = {"with": [], "without": []}
    rounds = max(1, plan.edits // 25)
    number = 10 * plan.memories * plan.versions
    for turn in range(rounds):
        for way in ("with", "without") if turn % 2 else ("without", "with"):
            await sql.execute(keep if way == "with" else skip)
            for edit in range(-2, 25):
                number += 1
                fields = {"text": workload.make_note(number).text}
                work = app.memory.edit.patch_memory(principal, ids[number % len(ids)], fields, version=None)
                took = await _timed(work)
                if edit >= 0:
                    taken[way].append(took)
    await sql.execute(keep)
    return taken
