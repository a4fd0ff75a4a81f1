"""Cost of queries in PostgreSQL, and their recall, as a tenant grows.

    mnema bench scale --rows 10000,100000 --json FILE

The tenant has one user of 40,000, one of 5,000 and one of 1,000 memories, as far as they fit in half of the rows. All
other users are small. The vectors are made up with the structure of the local model's: about 20 directions matter
(turns embedded by all-MiniLM-L6-v2 have 16 dimensions by TwoNN). The rows bypass the journal and are indexed at once.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.domain.filters import Filters
from app.domain.principal import Principal
from app.storage.engine import prepare_connection
from app.storage.identity import new_id
from app.storage.recall.search import Search, SearchStorage
from app.storage.uow import ReadTx
from bench import cpu_time, throwaway, workload

SPACE, DIMENSION, LATENT, NOISE = "minilm_l6_v2", 384, 20, 0.15
USERS = {"large": 40_000, "middle": 5_000, "small": 1_000}
OTHERS = 200
CHUNK = 10_000
QUERIES, WANTED, EDGES = 40, 50, 5
NEVER = 10**9
CATEGORIES = workload.CATEGORIES
FREE = "bench_free"


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of query: its name, the user of the memories, and the search options."""

    name: str
    user: str | None
    search: dict[str, Any]
    filters: dict[str, Any] = field(default_factory=dict)


DENSE = {"lexical": 0, "with_strengths": False}
FULL = {"lexical": WANTED, "with_tokens": True, "beside": 20}
SHAPES = (
    *(Shape(f"{user} user, dense", user, DENSE) for user in USERS),
    *(Shape(f"{user} user, all", user, FULL) for user in USERS),
    Shape("tenant, dense, exact", None, DENSE | {"exact": NEVER}),
    Shape("tenant, dense", None, DENSE),
    Shape("tenant, all", None, FULL),
    Shape("tenant, dense, 1 of 4", None, DENSE, {"importance_min": 4}),
    Shape("tenant, dense, 1 of 1000", None, DENSE, {"run_id": "rare"}),
    Shape("middle user, dense, 1 of 4", "middle", DENSE, {"importance_min": 4}),
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
    recall: float | None


def made_up_vectors(rng: np.random.Generator, basis: NDArray[np.float64], count: int) -> NDArray[np.float32]:
    """Return `count` unit vectors."""
    vectors = rng.standard_normal((count, LATENT)) @ basis
    vectors += NOISE * np.sqrt(LATENT) * rng.standard_normal((count, DIMENSION))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def memory_owners(rows: int) -> list[str]:
    """Return the user id of each memory."""
    found: list[str] = []
    for user, size in USERS.items():
        found += [user] * (size if len(found) + size <= rows // 2 else 0)
    return found + [f"other-{number % OTHERS}" for number in range(rows - len(found))]


class TenantDataset:
    """The memories of the tenant: vectors, owners, ids and queries."""

    def __init__(self, site: throwaway.Site, tenant: UUID, rows: int) -> None:
        self._site = site
        self._tenant = tenant
        rng = np.random.default_rng(rows)
        basis = rng.standard_normal((LATENT, DIMENSION))
        self.vectors = made_up_vectors(rng, basis, rows)
        self.queries = made_up_vectors(rng, basis, QUERIES)
        self.owners = np.array(memory_owners(rows))
        self.ids = [new_id() for _ in range(rows)]

    async def load_rows(self, sql: asyncpg.Connection) -> None:
        """Load the rows, then build the index over all of them."""
        await register_vector(sql)
        await sql.execute("SET session_replication_role = replica; SET maintenance_work_mem = '1GB'")
        names = sorted(set(self.owners.tolist()))
        await sql.executemany(
            "INSERT INTO users (tenant_id, user_id) VALUES ($1, $2)", [(self._tenant, n) for n in names]
        )
        users = {r["user_id"]: r["user_pk"] for r in await sql.fetch("SELECT user_id, user_pk FROM users")}
        indexes = await sql.fetch(
            f"""SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS made FROM pg_index
                WHERE indrelid = 'vec_{SPACE}'::regclass AND pg_get_indexdef(indexrelid) LIKE '%hnsw%'"""
        )
        await sql.execute(f"DROP INDEX {', '.join(index['name'] for index in indexes)}")
        for start in range(0, len(self.ids), CHUNK):
            await self._store_chunk(sql, users, range(start, min(start + CHUNK, len(self.ids))))
        for index in indexes:
            await sql.execute(index["made"].replace(" ON ONLY ", " ON "))
        await sql.execute("VACUUM (ANALYZE)")
        await sql.execute(f"CREATE ROLE {FREE} LOGIN BYPASSRLS PASSWORD 'bench' IN ROLE mnema_app")
        await sql.execute(f"GRANT CONNECT ON DATABASE mnema TO {FREE}")

    async def _store_chunk(self, sql: asyncpg.Connection, users: dict[str, int], numbers: range) -> None:
        now, memories, vectors, edges = datetime.now(UTC), [], [], []
        tokens = [np.random.default_rng(n).integers(-60, 60, 13 * 96, np.int8).tobytes() for n in range(50)]
        for number in numbers:
            one, owner, key = workload.make_note(number), str(self.owners[number]), self.ids[number]
            at = now - timedelta(minutes=len(self.ids) - number)
            named = (self._tenant, key, users[owner], owner, f"{owner}/{number % 20}", number // 20)
            rare = "rare" if number % 1000 == 0 else None
            memories.append((*named, rare, "turn", one.category, one.text, number.to_bytes(8), 1 + number % 4, at, at))
            vector = HalfVector(self.vectors[number])
            vectors.append(
                (self._tenant, users[owner], key, "turn", one.category, "active", vector, tokens[number % 50], True)
            )
            if owner in USERS and number >= EDGES and self.owners[number - EDGES] == owner:
                edges += [
                    (self._tenant, new_id(), str(key), str(self.ids[number - n]), 0.6) for n in range(1, EDGES + 1)
                ]
        named = ("tenant_id", "id", "user_pk", "user_id", "thread_id", "seq", "run_id", "type", "category", "text")
        await sql.execute("CREATE TEMP TABLE IF NOT EXISTS incoming (LIKE memories INCLUDING DEFAULTS)")
        await sql.execute(
            """ALTER TABLE incoming ALTER pinned SET DEFAULT false, ALTER tags SET DEFAULT '{}',
               ALTER state SET DEFAULT 'active', ALTER metadata SET DEFAULT '{}', ALTER version SET DEFAULT 1,
               ALTER tsv DROP NOT NULL"""
        )
        columns = (*named, "text_hash", "importance", "created_at", "updated_at")
        await sql.copy_records_to_table("incoming", columns=columns, records=memories)
        kept = [*columns, "pinned", "tags", "state", "metadata", "version"]
        await sql.execute(
            f"INSERT INTO memories ({', '.join(kept)}) SELECT {', '.join(kept)} FROM incoming; TRUNCATE incoming"
        )
        columns = ("tenant_id", "user_pk", "memory_id", "type", "category", "state", "embedding", "tokens", "indexed")
        await sql.copy_records_to_table(f"vec_{SPACE}", columns=columns, records=vectors)
        columns = ("tenant_id", "id", "from_id", "to_id", "strength")
        await sql.copy_records_to_table("relations", columns=columns, records=edges)

    def best_ids(self, query: int, shape: Shape) -> set[UUID]:
        """Return the ids of the true best ten."""
        places = np.arange(len(self.ids))
        if shape.user is not None:
            places = places[self.owners == shape.user]
        if "importance_min" in shape.filters:
            places = places[places % 4 >= shape.filters["importance_min"] - 1]
        if "run_id" in shape.filters:
            places = places[places % 1000 == 0]
        near = np.argsort(-(self.vectors[places] @ self.queries[query]), kind="stable")[:10]
        return {self.ids[int(place)] for place in places[near]}


async def _measure_shape(
    town: TenantDataset, principal: Principal, both: Sequence[asyncpg.Connection], shape: Shape
) -> Line:
    storage, cpu, found, times = SearchStorage(SPACE), [0.0, 0.0], [], []
    pids = [await c.fetchval("SELECT pg_backend_pid()") for c in both]
    for query in range(-5, QUERIES):
        words = workload.query_body(query % QUERIES)["query"]
        filters = Filters(user_id=shape.user, **shape.filters)
        search = replace(
            Search(filters, CATEGORIES, words, town.queries[query % QUERIES], WANTED, WANTED), **shape.search
        )
        for side in (0, 1) if query % 2 else (1, 0):  # the first query fills the caches, the second is measured
            connection = both[side]
            before, started = cpu_time.thread_seconds(pids[side]), time.perf_counter()
            candidates = await storage.find_candidates(ReadTx(connection), principal, search)
            if query >= 0:  # the first five only warm plans and caches
                cpu[side] += (cpu_time.thread_seconds(pids[side]) - before) * 1000 / QUERIES
                if side == 0:
                    times.append((time.perf_counter() - started) * 1000)
                    ranked = sorted(candidates, key=lambda c: -(c.similarity or 0.0))[:10]
                    found.append(
                        len({c.id for c in ranked} & (true := town.best_ids(query, shape))) / max(1, len(true))
                    )
    p50, p95 = np.quantile(times, (0.5, 0.95))
    return Line(len(town.ids), shape.name, float(p50), float(p95), *cpu, float(np.mean(found)))


async def measure_tenant(site: throwaway.Site, rows: int, say: Callable[[str], None]) -> list[Line]:
    """Load the tenant and measure every shape."""
    sql = await asyncpg.connect(site.superuser_url)
    tenant = await sql.fetchval("SELECT id FROM tenants")
    town, started = TenantDataset(site, tenant, rows), time.perf_counter()
    await town.load_rows(sql)
    say(f"{rows} memories loaded and indexed in {time.perf_counter() - started:.0f} s")
    server = {"jit": "off"}
    app = await asyncpg.connect(site.home.role_url(site.cluster, "mnema_app"), server_settings=server)
    free = await asyncpg.connect(
        site.home.role_url(site.cluster, "mnema_app"), user=FREE, password="bench", server_settings=server
    )
    both = (app, free)
    for connection in both:
        await prepare_connection(connection)
    lines = [
        await _measure_shape(town, Principal(tenant), both, shape)
        for shape in SHAPES
        if shape.user is None or shape.user in town.owners
    ]
    for connection in (*both, sql):
        await connection.close()
    return lines


def run(rows: Sequence[int], say: Callable[[str], None]) -> list[Line]:
    """Measure each size on its own throw-away installation."""
    lines: list[Line] = []
    for count in rows:
        with throwaway.open_site(0) as site:
            lines += asyncio.run(measure_tenant(site, count, say))
    return lines


def as_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return the lines as JSON values for a file."""
    return [asdict(line) for line in lines]
