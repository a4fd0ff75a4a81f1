"""A throw-away installation: durable PostgreSQL in a temporary folder, roles, schema, one tenant and its memories."""

import asyncio
import contextlib
import itertools
import random
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import asyncpg
from pydantic import SecretStr

from app.bootstrap import Application, Doubles, application, create_roles, migrate_database, tenancy
from app.cli.embedded.home import DATABASE, Home
from app.cli.embedded.postgres import Cluster
from app.domain.changes import ChangeKind, Edge, MemoryChange, Observation
from app.domain.memory import NewMemory
from app.domain.scope import Scope
from app.storage.identity import new_id
from bench import workload
from bench.constant_embedder import TOPIC_SHARE, ConstantEmbedder

CHUNK = 50
EDGES = 5
DAYS = 90
BULK_PLANS = "?enable_seqscan=off&enable_hashjoin=off&enable_mergejoin=off"
"""While `relations` is small, the plan of a write reads all of it, and stays while it grows."""


@dataclass(frozen=True, slots=True)
class Site:
    """The installation; `key` is its one tenant's."""

    home: Home
    cluster: Cluster
    key: str

    @property
    def superuser_url(self) -> str:
        """The database as its superuser."""
        return self.cluster.url(DATABASE)

    @contextlib.asynccontextmanager
    async def application(self, options: str = "") -> AsyncIterator[tuple[Application, Scope]]:
        """The real application with the constant embedder, and the tenant's scope. `options`: of its connections."""
        settings = self.home.settings(self.cluster)
        url = SecretStr(settings.database_url.get_secret_value() + options)
        embedder = ConstantEmbedder(settings.embedding_model, settings.embedding_dimension)
        async with application(settings.model_copy(update={"database_url": url}), Doubles(embedder=embedder)) as built:
            scope = await built.tenants.authenticate(self.key)
            if scope is None:
                raise RuntimeError("the tenant's key is not known")
            yield built, scope


@contextlib.contextmanager
def site(rows: int) -> Iterator[Site]:
    """Make it and load `rows` memories; everything is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mnema-bench-") as folder:
        home = Home(Path(folder))
        try:
            cluster = home.postgres.start()
            made = Site(home, cluster, asyncio.run(_prepare(home, cluster)))
            asyncio.run(_load(made, rows))
            yield made
        finally:
            home.postgres.stop()


async def _prepare(home: Home, cluster: Cluster) -> str:
    """Roles, schema and a tenant; answers its key."""
    await create_roles(cluster.url(), DATABASE, home.passwords())
    settings = home.settings(cluster)
    await migrate_database(home.url(cluster, "mnema_admin"), settings)
    async with tenancy(settings) as tenants:
        tenant = await tenants.create("bench")
        return (await tenants.create_key(tenant.id, "bench", ["query", "write"]))[1]


async def _load(made: Site, rows: int) -> None:
    """Through the journal, in chunks, two users at a time; VACUUM and ANALYZE at the end, as after any bulk load.

    And early on: a plan made for an empty table takes any index for as good as another.
    """
    gate = asyncio.Semaphore(2)
    async with made.application(BULK_PLANS) as (app, scope):
        users = [_Loader(app, scope, range(user, rows, workload.USERS), gate) for user in range(workload.USERS)]
        for chunks in (1, None):
            await asyncio.gather(*(user.load(chunks) for user in users))
            await _vacuum(made)


async def _vacuum(made: Site) -> None:
    connection = await asyncpg.connect(made.superuser_url)
    try:
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


class _Loader:
    """One user's memories, oldest first, each related to some of the same topic."""

    def __init__(self, app: Application, scope: Scope, numbers: range, gate: asyncio.Semaphore) -> None:
        self._journal = app.write._journal  # the use-case would compare every note with all others
        self._embedder = app.embedder
        self._scope = scope
        self._rows = numbers.stop
        self._chunks = (numbers[start : start + CHUNK] for start in range(0, len(numbers), CHUNK))
        self._gate = gate
        self._chance = random.Random(numbers.start)
        self._by_topic: defaultdict[int, list[tuple[UUID, str]]] = defaultdict(list)
        self._now = datetime.now(UTC)

    async def load(self, chunks: int | None) -> None:
        """So many more chunks, or all that are left, a transaction each."""
        async with self._gate:
            for numbers in itertools.islice(self._chunks, chunks):
                await self._journal.record(self._scope, [await self._change(number) for number in numbers])

    async def _change(self, number: int) -> MemoryChange:
        """The memory as the write use-case makes it."""
        one, memory_id = workload.note(number), new_id()
        age = timedelta(days=DAYS * (1 - number / self._rows))
        new = NewMemory(
            user_id=one.user_id,
            category=one.category,
            text=one.text,
            thread_id=one.thread_id,
            agent_id=workload.AGENT,
            importance=1 + number % 5,
            created_at=self._now - age,
        )
        return MemoryChange(
            kind=ChangeKind.created,
            memory_id=memory_id,
            user_id=one.user_id,
            actor=workload.AGENT,
            new=new,
            vector=(await self._embedder.embed([one.text]))[0],
            threads=(one.thread_id,),
            delta_meta={"text": one.text, "importance": new.importance},
            edges=self._edges(memory_id, one),
            observations=(Observation("hotpath", "create", "ok", one.user_id, one.thread_id, memory_id, one.category),),
        )

    def _edges(self, memory_id: UUID, one: workload.Note) -> tuple[Edge, ...]:
        alike = self._by_topic[one.topic]
        chosen = self._chance.sample(alike, min(EDGES, len(alike)))
        alike.append((memory_id, one.category))
        return tuple(Edge(memory_id, other, category, TOPIC_SHARE) for other, category in chosen)
