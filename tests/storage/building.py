"""Building blocks of storage tests: tenants, changes, and vectors without a model."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np

from app.domain.changes import ChangeKind, MemoryChange
from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.ports import Vector
from app.providers.embeddings.base import VectorsOnlyEmbedder
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.transactions import refuse_inside_transaction
from tests.factories import draft

SPACE = "minilm_l6_v2"
SECRET = b"the installation's secret"


def vector_of(text: str, dimension: int = 384) -> Vector:
    """Return a unit vector that depends on the text alone; those of two texts are nearly orthogonal."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


class HashedEmbedder(VectorsOnlyEmbedder):
    """An embedder without a model."""

    model = "all-MiniLM-L6-v2"
    dimension = 384

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return one `vector_of` a text."""
        refuse_inside_transaction("the embedder")
        return [vector_of(text) for text in texts]

    async def embed_query(self, text: str) -> Vector:
        """Return the `vector_of` the text."""
        return (await self.embed_texts([text]))[0]

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


def journal_of(uow: UnitOfWork, space: str = SPACE) -> Journal:
    """Return a journal that writes into that embedding space."""
    return Journal(uow, space, SECRET)


async def new_tenant(uow: UnitOfWork) -> Principal:
    """Create a tenant; return it as a principal with all rights."""
    storage = TenantStorage(uow)
    tenant = await storage.create_tenant(f"tenant {new_id()}")
    key, _ = await storage.create_key(Principal(tenant.id), "test", ["admin"], None, None)
    return Principal(tenant.id, key.id, frozenset({"admin"}))


def creation(
    scope: Principal, text: str = "Maya drinks oat milk.", *, threads: Sequence[str] = (), **fields: Any
) -> Any:
    """Return the change that creates a memory."""
    new = draft(text, **{"created_at": datetime.now(UTC), "thread_id": threads[0] if threads else None} | fields)
    return MemoryChange(
        ChangeKind.created,
        new_id(),
        new.user_id,
        scope.actor_name,
        new=new,
        vector=vector_of(text),
        threads=tuple(threads),
        delta_meta={"text": text, "importance": new.importance},
    )


def change(scope: Principal, memory_id: UUID, kind: ChangeKind = ChangeKind.updated, **parts: Any) -> MemoryChange:
    """Return a change of a stored memory. `parts` are fields of MemoryChange; `fields` get an `updated_at`."""
    made = MemoryChange(kind, memory_id, "maya", scope.actor_name, **parts)
    return made if kind is ChangeKind.purged else replace(made, fields={"updated_at": datetime.now(UTC), **made.fields})


async def remembered(journal: Journal, scope: Principal, text: str = "Maya drinks oat milk.", **fields: Any) -> Memory:
    """Store a memory through the journal."""
    outcome = await journal.record(scope, [creation(scope, text, **fields)])
    memory = outcome.recorded[0].memory
    assert memory is not None
    return memory


async def bind(connection: asyncpg.Connection, tenant: UUID | str) -> None:
    """Set the tenant for the rest of the connection's transaction."""
    await connection.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant))


class Gate:
    """A gate that stops transactions at their commit if they recorded history as actor `slow`, until it opens."""

    def __init__(self, superuser: asyncpg.Connection) -> None:
        self._superuser = superuser

    async def install(self) -> None:
        """Create the gate, closed."""
        await self._superuser.execute("""
            CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
                'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NULL; END';
            CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON history DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW WHEN (new.actor = 'slow') EXECUTE FUNCTION gate();
            SELECT pg_advisory_lock(7)""")

    async def waiting(self, count: int) -> list[int]:
        """Return the process ids once this many transactions of the database wait for a lock."""
        async with asyncio.timeout(20):
            while True:
                rows = await self._superuser.fetch(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
                if len(rows) >= count:
                    return [row["pid"] for row in rows]
                await asyncio.sleep(0.005)

    async def open(self) -> None:
        """Let the transactions commit."""
        await self._superuser.execute("SELECT pg_advisory_unlock(7)")


def slow(scope: Principal) -> Principal:
    """Return the same caller with an actor that stops at the gate."""
    return replace(scope, agent="slow")
