"""Measure Mnema, mem0 and LangGraph's store in turn, and judge Mnema by its limits.

Queries come first, on the same memories for all; then each product writes the same new memories. A ratio compares two
measurements of one round, made within a minute, and the median of the rounds counts.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

import asyncpg
import numpy as np

from app.providers.embeddings.local import LocalEmbedder
from app.providers.embeddings.minilm import MiniLM
from bench.limits import Limit
from bench.rivals.corpus import make_memory, make_question, name_user
from bench.rivals.peers import install_peers, peer_versions
from bench.rivals.sides import Measured, Side, Sizes, open_mem0, open_mnema, open_store, settle_databases
from bench.throwaway import Site, open_site, using_model

WRITE_RATE, WRITE_P50, QUERY_RATE, RECALL = 1.0, 1.3, 3.0, 0.99
ASKED: Final = 200
"""Questions for the recall."""
RECALL_FROM, QUERIED_FROM, WRITTEN_FROM, APART = 1_000_000, 2_000_000, 10_000_000, 100_000
_CONDITIONS: Final = """SELECT current_setting('server_version') AS postgresql,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector,
    current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('shared_buffers') AS shared_buffers, current_setting('hnsw.ef_search', true) AS "hnsw.ef_search" """


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run, and where the virtual environment of the other products is kept."""

    peers_home: Path
    sizes: Sizes = field(default_factory=Sizes)
    rounds: int = 3


@dataclass(slots=True)
class Report:
    """All measurements in order, the recall of each side, and the conditions."""

    plan: Plan
    measured: list[Measured] = field(default_factory=list)
    recall: dict[str, float] = field(default_factory=dict)
    conditions: dict[str, Any] = field(default_factory=dict)

    def of(self, side: str, kind: str, clients: int) -> list[Measured]:
        """Return the measurements of one kind, one a round."""
        return [one for one in self.measured if (one.side, one.kind, one.clients) == (side, kind, clients)]

    def median_of(self, side: str, kind: str, clients: int, figure: str) -> float:
        """Return the median of a figure, such as `p50`, over the rounds."""
        values: list[float] = [getattr(one.figures, figure) for one in self.of(side, kind, clients)]
        return median(values)

    def ratio(self, sides: tuple[str, str], kind: str, clients: int, figure: str) -> float:
        """Return how many times the first side's figure is the second's: the median of the rounds' ratios."""
        ours, theirs = (self.of(side, kind, clients) for side in sides)
        pairs = zip(ours, theirs, strict=True)
        ratios: list[float] = [getattr(a.figures, figure) / getattr(b.figures, figure) for a, b in pairs]
        return round(median(ratios), 3)

    def median_cpu(self, side: str, kind: str, clients: int) -> tuple[float, float] | None:
        """Return the median CPU milliseconds of a request, of the product and of PostgreSQL; None without /proc."""
        spent = [(one.own_cpu_ms, one.postgres_cpu_ms) for one in self.of(side, kind, clients)]
        known = [(own, postgres) for own, postgres in spent if own is not None and postgres is not None]
        return (median(own for own, _ in known), median(postgres for _, postgres in known)) if known else None

    def limits(self) -> list[Limit]:
        """Return the limits with what was measured."""
        many = self.plan.sizes.clients
        pair = ("Mnema", "mem0")
        nearest = "Mnema, vectors only"
        write_rate = self.ratio(pair, "write", many, "per_second")
        query_rate = self.ratio((nearest, "mem0"), "query", many, "per_second")
        return [
            Limit(f"writes a second at {many} clients / mem0's", write_rate, WRITE_RATE),
            Limit("p50 of a write at one client / mem0's", self.ratio(pair, "write", 1, "p50"), WRITE_P50, False),
            Limit(f"queries a second at {many} clients, vectors only / mem0's", query_rate, QUERY_RATE),
            Limit(f"recall@{self.plan.sizes.top_k} of these queries", self.recall[nearest], RECALL),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        plan = asdict(self.plan) | {"peers_home": str(self.plan.peers_home)}
        limits = [asdict(limit) | {"kept": limit.kept} for limit in self.limits()]
        return asdict(self) | {"plan": plan, "limits": limits}


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Run the whole comparison and remove everything afterwards but the peers' virtual environment.

    Raise RuntimeError if a product refuses a request, or if it or its packages cannot be started or installed.
    """
    python = install_peers(plan.peers_home, say)
    report = Report(plan)
    with contextlib.ExitStack() as opened:
        opened.enter_context(using_model(MiniLM.name))  # the others have it too
        site = opened.enter_context(open_site(0))
        shipped, nearest = opened.enter_context(open_mnema(site, plan.sizes))
        mem0 = opened.enter_context(open_mem0(site, plan.sizes, python))
        store = open_store(site, plan.sizes, python)
        for side in (shipped, mem0, store):
            say(f"{side.name} writes {plan.sizes.memories} memories")
            side.load_corpus()
        settle_databases(site)
        report.conditions = _read_conditions(site, python)
        _measure_recall(report, site, [shipped, nearest, mem0, store], say)
        _measure_in_turn(report, "query", [shipped, nearest, mem0, store], QUERIED_FROM, say)
        _measure_in_turn(report, "write", [shipped, mem0, store], WRITTEN_FROM, say)
        report.conditions["load_after"] = os.getloadavg()
    return report


def _measure_in_turn(
    report: Report, kind: Literal["write", "query"], sides: Sequence[Side], first: int, say: Callable[[str], None]
) -> None:
    """Measure each side with many clients and with one, round after round."""
    rounds = report.plan.rounds
    for number in range(rounds):
        for place, clients in enumerate((report.plan.sizes.clients, 1)):
            for side in sides if number % 2 == 0 else reversed(sides):
                say(f"{kind}, round {number + 1} of {rounds}, {clients} clients: {side.name}")
                start = first + (2 * number + place) * APART
                report.measured.append(side.measure(kind, clients, start))


def _measure_recall(report: Report, site: Site, sides: Sequence[Side], say: Callable[[str], None]) -> None:
    """Compare what each side finds with the exact nearest memories of the user."""
    say(f"recall of {ASKED} questions")
    questions = range(RECALL_FROM, RECALL_FROM + ASKED)
    exact = asyncio.run(find_exactly(site.home.path / "models", report.plan.sizes, questions))
    for side in sides:
        report.recall[side.name] = mean_recall(side.find(questions), exact)


async def find_exactly(models: Path, sizes: Sizes, questions: Sequence[int]) -> list[set[str]]:
    """Return the texts of the user's nearest memories for each question, by comparing all vectors."""
    embedder = LocalEmbedder(models)
    try:
        texts = [make_memory(number, sizes.users).text for number in range(sizes.memories)]
        vectors = np.array(await embedder.embed_texts(texts))
        asked = [make_question(number, sizes.users) for number in questions]
        sought = np.array(await embedder.embed_texts([question for _, question in asked]))
    finally:
        await embedder.close()
    of_user = {name_user(user): np.arange(user, sizes.memories, sizes.users) for user in range(sizes.users)}
    found = []
    for (user, _), vector in zip(asked, sought, strict=True):
        numbers = of_user[user]
        nearest = numbers[np.argsort(-(vectors[numbers] @ vector), kind="stable")[: sizes.top_k]]
        found.append({texts[number] for number in nearest})
    return found


def mean_recall(found: Sequence[Sequence[str]], exact: Sequence[set[str]]) -> float:
    """Return the mean share of the exact texts that were found."""
    shares = [len(right.intersection(texts)) / len(right) for texts, right in zip(found, exact, strict=True)]
    return round(sum(shares) / len(shares), 4)


def _read_conditions(site: Site, python: Path) -> dict[str, Any]:
    async def read_settings() -> dict[str, Any]:
        connection = await asyncpg.connect(site.superuser_url)
        try:
            await connection.execute("LOAD 'vector'")
            return dict(await connection.fetchrow(_CONDITIONS))
        finally:
            await connection.close()

    ours = {"mnema-server": version("mnema-server")}
    machine = {"cores": os.cpu_count(), "load_before": os.getloadavg()}
    return ours | peer_versions(python) | asyncio.run(read_settings()) | machine
