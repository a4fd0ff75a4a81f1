"""A throw-away installation: durable PostgreSQL in a temporary folder, roles, schema, one tenant and its memories."""

import asyncio
import contextlib
import os
import random
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import asyncpg

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.administration import create_roles, migrate_database
from app.bootstrap.database import open_database
from app.bootstrap.model import default_model
from app.bootstrap.tenancy import open_tenants
from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.memory.memory import NewMemory
from app.domain.principal import Principal
from app.domain.trusted_time import TrustedTime
from app.embedded.home import DATABASE, Home
from app.embedded.postgres import Cluster, EmbeddedPostgres
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.storage.operations.spaces import active_space
from bench import workload
from bench.constant_embedder import TOPIC_SHARE, ConstantEmbedder

CHUNK = 250
EDGES = 5
DAYS = 90


@dataclass(slots=True)
class MovableClock:
    """A clock that shows the time that was set."""

    at: datetime = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time that was set."""
        return self.at

    async def trusted_time(self) -> TrustedTime:
        """Return the time that was set."""
        return TrustedTime(self.at)

    async def follow_database(self) -> None:
        """Do nothing: the time that was set counts."""


@dataclass(frozen=True, slots=True)
class Site:
    """A throw-away installation; `key` is the key of its only tenant."""

    home: Home
    cluster: Cluster
    key: str

    @property
    def superuser_url(self) -> str:
        """The database URL of the superuser."""
        return self.cluster.database_url(DATABASE)

    @contextlib.asynccontextmanager
    async def open_application(self) -> AsyncIterator[tuple[Application, Principal]]:
        """Open the real application with the constant embedder; yield it with the tenant's principal."""
        settings = default_model(self.home.server_settings(self.cluster))
        embedder = ConstantEmbedder(settings.embedding_model, settings.embedding_dimension)
        async with build_application(settings, Doubles(embedder=embedder)) as built:
            scope = await built.tenancy.tenants.authenticate(self.key)
            if scope is None:
                raise RuntimeError("the tenant's key is not known")
            yield built, scope


@contextlib.contextmanager
def using_model(model: str) -> Iterator[None]:
    """Set the embedding model of the installations that are made meanwhile."""
    before = os.environ.get("MNEMA_EMBEDDING_MODEL")
    os.environ["MNEMA_EMBEDDING_MODEL"] = model
    try:
        yield
    finally:
        del os.environ["MNEMA_EMBEDDING_MODEL"]
        if before is not None:
            os.environ["MNEMA_EMBEDDING_MODEL"] = before


@contextlib.contextmanager
def open_site(rows: int, settings: Mapping[str, str] | None = None) -> Iterator[Site]:
    """Create an installation and load `rows` memories; remove everything afterwards. `settings` are PostgreSQL's."""
    with tempfile.TemporaryDirectory(prefix="mnema-bench-") as folder:
        home = Home(Path(folder))
        if settings:
            home.postgres = EmbeddedPostgres(home.path, settings=settings)
        try:
            cluster = home.postgres.start_server()
            site = Site(home, cluster, asyncio.run(_prepare_database(home, cluster)))
            asyncio.run(_load_memories(site, rows))
            yield site
        finally:
            home.postgres.stop_server()


async def _prepare_database(home: Home, cluster: Cluster) -> str:
    """Create roles, schema and a tenant; return its key."""
    await create_roles(cluster.database_url(), DATABASE, home.load_passwords())
    settings = home.server_settings(cluster)
    await migrate_database(home.role_url(cluster, "mnema_admin"), settings)
    async with open_tenants(settings) as tenants:
        tenant = await tenants.create_tenant("bench")
        return (await tenants.create_key(tenant.id, "bench", ["query", "write", "chat", "read_all"]))[1]


async def _load_memories(site: Site, rows: int) -> None:
    """Load memories through the journal in chunks, two users at a time, then their relations in bulk."""
    gate = asyncio.Semaphore(2)
    settings = site.home.server_settings(site.cluster)
    async with site.open_application() as (app, scope), open_database(settings) as uow:
        # the use-case would compare every note with all others
        journal = Journal(uow, (await active_space(uow)).name, settings.erasure_secret())
        numbers = [range(user, rows, workload.USERS) for user in range(workload.USERS)]
        users = [_Loader(app, journal, scope, user, gate) for user in numbers]
        await asyncio.gather(*(user.load_chunks() for user in users))
    connection = await asyncpg.connect(site.superuser_url)
    try:
        edges = [(scope.tenant_id, new_id(), *edge) for user in users for edge in user.edges]
        columns = ("tenant_id", "id", "from_id", "to_id", "strength")
        await connection.copy_records_to_table("relations", records=edges, columns=columns)
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


class _Loader:
    """A loader of one user's memories, oldest first, each related to some of the same topic."""

    def __init__(
        self, app: Application, journal: Journal, principal: Principal, numbers: range, gate: asyncio.Semaphore
    ) -> None:
        self._journal = journal
        self._embedder = app.parts.embedder
        self._scope = principal
        self._numbers = numbers
        self.edges: list[tuple[str, str, float]] = []
        self._gate = gate
        self._chance = random.Random(numbers.start)
        self._by_topic: defaultdict[int, list[UUID]] = defaultdict(list)
        self._now = datetime.now(UTC)

    async def load_chunks(self) -> None:
        """Load all memories, one transaction for each chunk."""
        async with self._gate:
            for start in range(0, len(self._numbers), CHUNK):
                numbers = self._numbers[start : start + CHUNK]
                await self._journal.record(self._scope, [await self._build_change(number) for number in numbers])

    async def _build_change(self, number: int) -> MemoryChange:
        """Return the change that the write use-case would make for the memory."""
        one = workload.make_note(number)
        memory_id = new_id()
        [embedding] = await self._embedder.encode_texts([one.text])
        self._relate_memory(memory_id, one.topic)
        age = timedelta(days=DAYS * (1 - number / self._numbers.stop))
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
            vector=embedding.vector,
            tokens=embedding.tokens,
            threads=(one.thread_id,),
            delta_meta={"text": one.text, "importance": new.importance},
            observations=(Observation("hotpath", "create", "ok", one.user_id, one.thread_id, memory_id, one.category),),
        )

    def _relate_memory(self, memory_id: UUID, topic: int) -> None:
        alike = self._by_topic[topic]
        chosen = self._chance.sample(alike, min(EDGES, len(alike)))
        self.edges += [(str(memory_id), str(other), TOPIC_SHARE) for other in chosen]
        alike.append(memory_id)
