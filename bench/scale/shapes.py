"""Kinds of queries in PostgreSQL: their time, their CPU with and without row-level security, and their recall."""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray

from app.domain.filters import Filters
from app.domain.principal import Principal
from app.storage.engine import prepare_connection
from app.storage.recall.search import Search, SearchStorage
from app.storage.uow import ReadTx
from bench import cpu_time, throwaway, workload
from bench.scale.loading import SPACE
from bench.scale.tenants import RARE, USERS, Tenant, make_basis, text_vector

QUERIES, WANTED, WARM = 40, 50, 5
NEVER = 10**9
FREE = "bench_free"
AS_APP = {"jit": "off", "enable_seqscan": "off"}
"""The settings of the role mnema_app."""
LARGE, SMALL = "large", "small"


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of query: its name, the user of the memories, the search options, and whose memories it is about."""

    name: str
    user: str | None
    search: dict[str, Any]
    filters: dict[str, Any] = field(default_factory=dict)
    tenant: str = LARGE
    queries: int = QUERIES


DENSE = {"lexical": 0, "with_strengths": False}
FULL = {"lexical": WANTED, "with_tokens": True, "beside": 20}
TENANT_DENSE = Shape("tenant, dense", None, DENSE)
SHAPES = (
    *(Shape(f"{user} user, dense", user, DENSE) for user in USERS),
    *(Shape(f"{user} user, all", user, FULL) for user in USERS),
    Shape("middle user, dense, 1 of 4", "middle", DENSE, {"importance_min": 4}),
    TENANT_DENSE,
    Shape("tenant, all", None, FULL),
    Shape("tenant, dense, 1 of 4", None, DENSE, {"importance_min": 4}),
    Shape(f"tenant, dense, 1 of {RARE}", None, DENSE, {"run_id": "rare"}),
    Shape(f"tenant, all, 1 of {RARE}", None, FULL, {"run_id": "rare"}),
    Shape("small tenant, dense", None, DENSE, tenant=SMALL),
    Shape("small tenant, all", None, FULL, tenant=SMALL),
    Shape("tenant, dense, exact", None, DENSE | {"exact": NEVER}, queries=10),  # the last: it empties the caches
)


@dataclass(frozen=True, slots=True)
class Line:
    """The measurement of one shape.

    It has milliseconds of clock time, PostgreSQL's CPU with and without row-level security, and the share of the true
    best ten that was found.
    """

    rows: int
    shape: str
    p50_ms: float
    p95_ms: float
    cpu_ms: float
    free_cpu_ms: float
    recall: float


class Truth:
    """The right answers to queries of a tenant, by the cosine of each query with each memory."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self._basis = make_basis()
        self.texts = [str(workload.query_body(number)["query"]) for number in range(QUERIES)]
        self.queries = np.stack([text_vector(self._basis, text) for text in self.texts])
        self._near = tenant.similarities(self._basis, self.queries)

    def change_vectors(self, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Note that memories have other vectors now."""
        self._near[:, rows] = self.queries @ vectors.T

    def best_ids(self, query: int, shape: Shape) -> set[UUID]:
        """Return the ids of the true best ten."""
        rows = np.arange(len(self.tenant)) if shape.user is None else np.sort(self.tenant.rows_of(shape.user))
        if "importance_min" in shape.filters:
            rows = rows[rows % 4 >= shape.filters["importance_min"] - 1]
        if "run_id" in shape.filters:
            rows = rows[rows % RARE == 0]
        best = np.argsort(-self._near[query, rows], kind="stable")[:10]
        return {self.tenant.ids[int(row)] for row in rows[best]}


class ShapeBench:
    """Two connections to a loaded site: as the application, and as a role that bypasses row-level security."""

    def __init__(self, site: throwaway.Site, truths: dict[str, Truth]) -> None:
        self._site = site
        self._truths = truths
        self._rows = len(truths[LARGE].tenant)

    async def create_free_role(self, sql: asyncpg.Connection) -> None:
        """Create the role that bypasses row-level security."""
        await sql.execute(f"CREATE ROLE {FREE} LOGIN BYPASSRLS PASSWORD 'bench' IN ROLE mnema_app")
        await sql.execute(f"GRANT CONNECT ON DATABASE mnema TO {FREE}")

    async def measure_shapes(self, shapes: Sequence[Shape] = SHAPES) -> list[Line]:
        """Measure each shape whose user the tenant has."""
        url = self._site.home.role_url(self._site.cluster, "mnema_app")
        async with AsyncExitStack() as stack:
            both = []
            for login in ({}, {"user": FREE, "password": "bench"}):
                connection = await asyncpg.connect(url, server_settings=AS_APP, **login)
                stack.push_async_callback(connection.close)
                await prepare_connection(connection)
                both.append(connection)
            known = self._truths[LARGE].tenant.users
            return [await self._measure(both, shape) for shape in shapes if shape.user is None or shape.user in known]

    async def _measure(self, both: Sequence[asyncpg.Connection], shape: Shape) -> Line:
        truth = self._truths[shape.tenant]
        cpu = [0.0, 0.0]
        found = []
        times = []
        pids = [await connection.fetchval("SELECT pg_backend_pid()") for connection in both]
        for query in range(-WARM, shape.queries):  # the first only warm plans and caches
            for side in (0, 1) if query % 2 else (1, 0):  # the first fills the caches, the second is measured
                before = cpu_time.thread_seconds(pids[side])
                started = time.perf_counter()
                best = await _find_best(both[side], truth, query % QUERIES, shape)
                if query < 0:
                    continue
                cpu[side] += (cpu_time.thread_seconds(pids[side]) - before) * 1000 / shape.queries
                if side == 0:
                    times.append((time.perf_counter() - started) * 1000)
                    true = truth.best_ids(query, shape)
                    found.append(len(best & true) / max(1, len(true)))
        p50, p95 = np.quantile(times, (0.5, 0.95))
        return Line(self._rows, shape.name, float(p50), float(p95), *cpu, float(np.mean(found)))


async def _find_best(connection: asyncpg.Connection, truth: Truth, query: int, shape: Shape) -> set[UUID]:
    """Return the ids of the nearest ten that a search finds."""
    filters = Filters(user_id=shape.user, **shape.filters)
    search = Search(filters, workload.CATEGORIES, truth.texts[query], truth.queries[query], WANTED, WANTED)
    principal = Principal(truth.tenant.id)
    candidates = await SearchStorage(SPACE).find_candidates(
        ReadTx(connection), principal, replace(search, **shape.search)
    )
    return {c.id for c in sorted(candidates, key=lambda c: -(c.similarity or 0.0))[:10]}
