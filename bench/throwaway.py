"""A throw-away installation: durable PostgreSQL in a temporary folder, roles, schema, one tenant and its memories."""

import asyncio
import contextlib
import random
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import asyncpg

from app.bootstrap import Application, Doubles, application, create_roles, migrate_database, tenancy
from app.cli.embedded.home import DATABASE, Home
from app.cli.embedded.postgres import Cluster
from app.domain.changes import ChangeKind, Edge, MemoryChange, Observation
from app.domain.memory import NewMemory
from app.domain.scope import Scope
from app.storage.identity import new_id
from bench import workload
from bench.constant_embedder import TOPIC_SHARE, ConstantEmbedder

CHUNK = 250
EDGES = 5
DAYS = 90


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
    async def application(self) -> AsyncIterator[tuple[Application, Scope]]:
        """The real application with the constant embedder, and the tenant's scope."""
        settings = self.home.settings(self.cluster)
        embedder = ConstantEmbedder(settings.embedding_model, settings.embedding_dimension)
        async with application(settings, Doubles(embedder=embedder)) as built:
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
    """Through the journal, in chunks, two users at a time; then VACUUM and ANALYZE, as after any bulk load."""
    numbers = [range(user, rows, workload.USERS) for user in range(workload.USERS)]
    async with made.application() as (app, scope):
        gate = asyncio.Semaphore(2)

        async def load(mine: range) -> None:
            async with gate:
                await _load_user(app, scope, mine)

        await asyncio.gather(*(load(mine) for mine in numbers))
    connection = await asyncpg.connect(made.superuser_url)
    try:
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


async def _load_user(app: Application, scope: Scope, numbers: range) -> None:
    journal = app.write._journal  # faster than writing by the use-case, which would compare each note with all others
    chance = random.Random(numbers.start)
    by_topic: defaultdict[int, list[tuple[UUID, str]]] = defaultdict(list)
    now = datetime.now(UTC)
    for start in range(0, len(numbers), CHUNK):
        changes = []
        for number in numbers[start : start + CHUNK]:
            age = timedelta(days=DAYS * (1 - number / numbers.stop))
            changes.append(await _change(app, scope, number, now - age, by_topic, chance))
        await journal.record(scope, changes)


async def _change(
    app: Application,
    scope: Scope,
    number: int,
    created_at: datetime,
    by_topic: defaultdict[int, list[tuple[UUID, str]]],
    chance: random.Random,
) -> MemoryChange:
    """A memory as the write use-case makes it, related to some of the same user and topic."""
    one, memory_id = workload.note(number), new_id()
    alike = by_topic[one.topic]
    edges = [Edge(memory_id, other, category, TOPIC_SHARE) for other, category in chance.sample(alike, min(EDGES, len(alike)))]
    alike.append((memory_id, one.category))
    new = NewMemory(
        user_id=one.user_id,
        category=one.category,
        text=one.text,
        thread_id=one.thread_id,
        agent_id=workload.AGENT,
        importance=1 + number % 5,
        created_at=created_at,
    )
    return MemoryChange(
        kind=ChangeKind.created,
        memory_id=memory_id,
        user_id=one.user_id,
        actor=workload.AGENT,
        new=new,
        vector=(await app.embedder.embed([one.text]))[0],
        threads=(one.thread_id,),
        delta_meta={"text": one.text, "importance": new.importance},
        edges=tuple(edges),
        observations=(Observation("hotpath", "create", "ok", one.user_id, one.thread_id, memory_id, one.category),),
    )
