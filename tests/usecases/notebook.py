"""Memories stored directly in the database, so that no write merges them."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import asyncpg
from pgvector import HalfVector

from app.domain.memory.memory import Memory
from app.domain.text_rules import text_key
from app.ports import Embedder, Vector
from app.storage.identity import new_id
from tests.usecases.stored import VECTORS

_SAME = (
    "id",
    "user_id",
    "thread_id",
    "category",
    "text",
    "importance",
    "pinned",
    "version",
    "created_at",
    "updated_at",
)


async def embedded(embedder: Embedder, memories: Sequence[Memory]) -> dict[UUID, Vector]:
    """Return the vector of each memory by id."""
    vectors = await embedder.embed_texts([one.text for one in memories])
    return {one.id: vector for one, vector in zip(memories, vectors, strict=True)}


async def store(
    sql: asyncpg.Connection, tenant_id: UUID, memories: Sequence[Memory], vectors: Mapping[UUID, Vector]
) -> None:
    """Store memories in one transaction with users, vectors, hits and the history that the tripwire requires."""
    users = sorted({one.user_id for one in memories})
    add_user = "INSERT INTO users (tenant_id, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING"
    async with sql.transaction():
        await sql.executemany(add_user, [(tenant_id, user) for user in users])
        known = await sql.fetch("SELECT user_id, user_pk FROM users WHERE tenant_id = $1", tenant_id)
        keys = {row["user_id"]: row["user_pk"] for row in known}
        await _rows(sql, tenant_id, memories, keys)
        embeddings = [
            (tenant_id, keys[one.user_id], one.id, one.type, one.category, one.state, HalfVector(vectors[one.id]))
            for one in memories
        ]
        columns = ("tenant_id", "user_pk", "memory_id", "type", "category", "state", "embedding")
        await sql.copy_records_to_table(VECTORS, columns=columns, records=embeddings)
        hits = [(tenant_id, one.id, one.updated_at, one.hits) for one in memories if one.hits]
        columns = ("tenant_id", "memory_id", "last_accessed", "hits")
        await sql.copy_records_to_table("memory_access", columns=columns, records=hits)


async def _rows(sql: asyncpg.Connection, tenant_id: UUID, memories: Sequence[Memory], keys: Mapping[str, int]) -> None:
    columns = ("tenant_id", "user_pk", *_SAME, "text_hash", "type", "state", "tags", "metadata")
    rows = [
        (
            tenant_id,
            keys[one.user_id],
            *(getattr(one, name) for name in _SAME),
            text_key(one.text),
            one.type.value,
            one.state.value,
            list(one.tags),
            {},
        )
        for one in memories
    ]
    await sql.copy_records_to_table("memories", columns=columns, records=rows)
    history = [(tenant_id, new_id(), str(one.id), "ADD") for one in memories]
    await sql.copy_records_to_table("history", columns=("tenant_id", "id", "memory_id", "event"), records=history)
